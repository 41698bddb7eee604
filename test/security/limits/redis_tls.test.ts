import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { aroundTests } from '../../../harness/around_tests.ts';
import { capturedLog } from '../../../harness/captured_log.ts';
import { noOpenssl, redisTls, TestAuthority } from '../../../harness/http/certificates.ts';
import { freePort } from '../../../harness/processes/ports.ts';
import { PrivateRedis } from '../../../harness/redis/private_redis.ts';
import { until } from '../../../harness/until.ts';
import { connectOne, type RedisTls } from '../../../src/store/connection.ts';

describe('a Redis behind TLS', { skip: noOpenssl }, () => {
  let certificates: TestAuthority;
  let redis: PrivateRedis;
  let port: number;
  aroundTests(
    async () => {
      certificates = new TestAuthority();
      port = await freePort();
      redis = await PrivateRedis.start({ config: redisTls(port, certificates) });
    },
    async () => {
      await redis.stop();
      certificates.remove();
    },
  );

  /** Tries a connection. Resolves with PONG, or with the reason why it cannot be made. */
  async function ping(tls: RedisTls | undefined, host = '127.0.0.1'): Promise<string> {
    const { log, lines } = capturedLog();
    const connection = connectOne(`rediss://${host}:${port}`, log, tls);
    try {
      await until(() => connection.status === 'ready' || lines.length > 0);
      return lines.length > 0 ? String(lines[0]?.reason) : await connection.ping();
    } finally {
      connection.disconnect();
    }
  }

  test('is not trusted if no known authority signed its certificate', async () => {
    const reason = await ping(undefined);
    assert.match(
      reason,
      /(unable to verify|self.signed certificate).*; see ROUTEMASTER_REDIS_CA and ROUTEMASTER_/,
    );
  });

  test('is trusted if its authority is', async () => {
    assert.equal(await ping({ ca: certificates.caText, verify: true }), 'PONG');
  });

  test('is not trusted under another name than its own', async () => {
    assert.match(await ping({ ca: certificates.caText, verify: true }, 'localhost'), /does not match/);
  });

  test('is not trusted if only another authority is', async () => {
    const other = new TestAuthority();
    try {
      assert.match(
        await ping({ ca: other.caText, verify: true }),
        /unable to verify|self.signed|signature failure/,
      );
    } finally {
      other.remove();
    }
  });

  test('is asked about in the log if the URL says redis://', async () => {
    const { log, lines } = capturedLog();
    const connection = connectOne(`redis://127.0.0.1:${port}`, log);
    await until(() => lines.length > 0);
    connection.disconnect();
    assert.match(String(lines[0]?.reason), /^read ECONNRESET; does this Redis want TLS\? Then write rediss:/);
  });

  test('is trusted without verification if that is configured', async () => {
    assert.equal(await ping({ ca: undefined, verify: false }), 'PONG');
  });
});

test('the log asks whether a Redis speaks TLS that does not answer a rediss:// URL', async (t) => {
  const redis = await PrivateRedis.during(t, { port: 0 });
  const { log, lines } = capturedLog();
  const connection = connectOne(redis.url.replace('redis:', 'rediss:'), log);
  t.after(() => connection.disconnect());
  await until(() => lines.length > 0);
  assert.match(String(lines[0]?.reason), /^connect ETIMEDOUT; does this Redis speak TLS, as rediss: says\?/);
});

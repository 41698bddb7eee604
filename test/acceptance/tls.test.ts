import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { RunningBus } from '../support/running_bus.ts';
import { until } from '../support/until.ts';

const noOpenssl = spawnSync('openssl', ['version']).status !== 0 && 'openssl is not on PATH';

const bus = RunningBus.forTests();

/** A certificate for 127.0.0.1 that nobody vouches for. */
function selfSigned(): { key: string; cert: string } {
  const dir = mkdtempSync(join(tmpdir(), 'routemaster-tls-'));
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const name = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  try {
    execFileSync('openssl', ['req', '-x509', ...made, ...name, '-keyout', key, '-out', cert], {
      stdio: 'ignore',
    });
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
  } finally {
    rmSync(dir, { recursive: true });
  }
}

test('an https callback with a certificate that nobody vouches for is refused, or delivered to if so set', {
  skip: noOpenssl,
}, async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { tls: selfSigned() });
  const verifying = bus.process('worker');
  await publisher.publish(topic, { url: 'https://shop.example.com/1' });
  const failure = await verifying.logs('failed to deliver');
  assert.match(String(failure.reason), /^DEPTH_ZERO_SELF_SIGNED_CERT/);
  await until(async () => (await subscriber.report()).health_points <= 98);
  assert.deepEqual(receiver.deliveries, []);

  await verifying.stop();
  await bus.start('worker', { ROUTEMASTER_SSL_VERIFY: 'no' });
  await receiver.delivery(1);
  await until(async () => (await subscriber.report()).events.queued === 0);
});

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { aroundTests } from '../../harness/around_tests.ts';
import { capturedLog } from '../../harness/captured_log.ts';
import { Api, problemIn, send } from '../../harness/http/api.ts';
import { freePort } from '../../harness/processes/ports.ts';
import { WebProcess } from '../../harness/processes/web_process.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { openStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import { connect, connectOne } from '../../src/store/connection.ts';
import { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';

/** Maximum time of an answer that does not wait for a replica: well below the time for which a publication waits. */
const AT_ONCE_MS = 700;
const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const LATER = '{"type":"noop","url":"https://app.example.com/1","delay":60000}';

const online = async (master: Partition) =>
  /state=online/.test(await master.redis.info('replication')) ? true : undefined;

describe('with ROUTEMASTER_MIN_REPLICAS', async () => {
  const port = await freePort();
  const api = new Api({ env: { ROUTEMASTER_MIN_REPLICAS: '1' }, redisConfig: { port: String(port) } });
  let replica: PrivateRedis;
  const publish = (key: string = randomUUID(), body = EVENT) =>
    api.call('POST', '/topics/widgets', { as: 'pub', body, headers: { 'idempotency-key': key } });
  const refused = async (body?: string) => {
    const key = randomUUID();
    const answer = await publish(key, body);
    assert.equal(problemIn(answer).code, 'storage_unavailable');
    assert.match(problemIn(answer).detail as string, /^Too few replicas .* stored once\.$/);
    return key;
  };

  aroundTests(
    async () => {
      replica = await PrivateRedis.start({ config: { replicaof: `127.0.0.1 ${port}` } });
      await until(() => online(api.store), { what: 'the replica follows' });
    },
    () => replica.stop(),
  );

  test('204 means that a replica has the event, and one with a time of its own', async () => {
    const copy = await openStore(replica.url);
    for (const body of [EVENT, LATER]) assert.equal((await publish(undefined, body)).status, 204);
    const counts = await copy.redis.hmget(copy.keys.topic('widgets'), 'counter');
    assert.deepEqual(counts, ['1']);
    assert.equal(await copy.redis.zcard(copy.keys.delayed_due('widgets')), 1);
    copy.redis.disconnect();
  });

  test('the metrics count the replica', async () => {
    const { text } = await api.call('GET', '/metrics', { as: 'root' });
    assert.match(text, /^routemaster_redis_replicas 1$/m);
  });

  test('without the replica it is 503, and its repeat is 503 from any process until the replica has it', async () => {
    await replica.kill('SIGSTOP');
    const key = await refused();
    await refused(LATER);
    const other = await api.another();
    const headers = { authorization: await api.authorization('pub'), 'idempotency-key': key };
    const elsewhere = await send(other, 'POST', '/topics/widgets', headers, EVENT);
    assert.equal(problemIn(elsewhere).code, 'storage_unavailable');
    await replica.kill('SIGCONT');
    const repeated = await until(async () => {
      const answer = await publish(key);
      return answer.status === 204 ? answer : undefined;
    });
    assert.equal(repeated.headers['idempotent-replayed'], 'true');
    assert.match(api.web.output, /too few replicas have what is published/);
    await until(() => api.web.output.includes('enough replicas have what is published'));
  });

  test('other calls do not wait for replicas', async () => {
    await replica.kill('SIGSTOP');
    const publishing = refused();
    const answer = await api.call('GET', '/topics', { as: 'pub' });
    assert.equal(answer.status, 200);
    assert.ok(answer.tookMs < AT_ONCE_MS, `${answer.tookMs} ms`);
    await publishing;
    await replica.kill('SIGCONT');
    await until(async () => (await publish()).status === 204);
  });

  for (const [how, prepare] of [
    ['by a function', async () => {}],
    ['by a function that was missing', (store: Partition) => store.redis.call('FUNCTION', 'FLUSH')],
    [
      'by EVALSHA, where functions are forbidden',
      (store: Partition) => store.redis.call('ACL', 'SETUSER', 'default', '-fcall'),
    ],
  ] as const) {
    test(`a script waits for the replica when it runs ${how}`, async (t) => {
      const recorded = capturedLog();
      const store = new Partition(connect(api.redis.url, recorded.log), { minReplicas: 1 });
      t.after(() => store.redis.disconnect());
      t.after(() => api.store.redis.call('ACL', 'SETUSER', 'default', '+@all'));
      await until(() => store.redis.status === 'ready');
      const call = { action: 'topic.delete', role: 'root', address: '::1', status: 200 } as const;
      const run = () => store.run('record_call', { maxEntries: 1, ...call });
      await run().catch(() => {});
      await prepare(store);
      await replica.kill('SIGSTOP');
      await assert.rejects(run(), StorageUnavailable);
      await replica.kill('SIGCONT');
    });
  }
});

test('partitions on one connection wait together, and not one after the other', async (t) => {
  const redis = await PrivateRedis.during(t);
  const { log, lines } = capturedLog();
  const connection = connectOne(redis.url, log);
  t.after(() => connection.disconnect());
  const { all } = Partitions.on(connection, { partitions: 16, minReplicas: 1, log });
  const [first, ...others] = all as [Partition, ...Partition[]];
  await until(() => first.prepare().then(() => true));
  const isRefused = (partition: Partition) =>
    assert.rejects(partition.run('heartbeat', { leaseMs: 1, leases: [] }), StorageUnavailable);
  const waiting = isRefused(first);
  await setImmediate();
  await Promise.all([waiting, ...others.map(isRefused)]);
  assert.match(await connection.info('commandstats'), /cmdstat_wait:calls=2,/);
  assert.equal(lines.filter(({ msg }) => /^too few replicas/.test(String(msg))).length, 1);
});

test('a user of Redis without WAIT is refused at the boot, and the log names the ACL', async (t) => {
  const redis = await PrivateRedis.during(t, { port: 0, config: { user: 'bus on >word ~* &* +@all -wait' } });
  const url = redis.url.replace('//', '//bus:word@');
  const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: url, ROUTEMASTER_MIN_REPLICAS: '1' });
  assert.equal(await web.exitCode, 78, web.output);
  assert.match(web.output, /Redis says: NOPERM .*'wait'.*docs\/operating\.md has the ACL/);
});

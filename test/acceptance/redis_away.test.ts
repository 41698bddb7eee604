import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MeddlingProxy, piece } from '../../harness/meddling_proxy.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import { SteadyPublisher } from './steady_publisher.ts';

const url = (n: number) => `https://shop.example.com/widgets/${n}`;

const bus = RunningBus.forTests({
  env: { ROUTEMASTER_WORKER_LEASE: '2' },
  redis: { appendonly: 'yes', appendfsync: 'always' },
});

test('a restart of Redis under a running bus loses no accepted event', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 20, max: 10 });
  const pids = [bus.process('web').pid, bus.process('worker').pid];
  const ledgers = ['a', 'b', 'c'].map((name) => new SteadyPublisher(t, publisher, topic, name));
  for (let outage = 1; outage <= 2; outage++) {
    await Promise.all(ledgers.map((each) => each.accepts(40)));
    await bus.redis.kill('SIGKILL');
    await Promise.all(ledgers.map((each) => each.isRefused()));
    await bus.redis.restart();
  }
  await Promise.all(ledgers.map((each) => each.accepts(40)));
  await Promise.all(ledgers.map((each) => each.stop()));

  const accepted = ledgers.flatMap((each) => each.accepted);
  await until(() => receiver.missing(accepted).length === 0, { what: 'all that was accepted is delivered' });
  await until(async () => (await subscriber.report()).events.queued === 0);
  assert.deepEqual([bus.process('web').pid, bus.process('worker').pid], pids, 'no process ended');
});

test('while Redis is away, web answers 503 at once, and a delivery in flight is not repeated', async (t) => {
  // If Redis were away for longer than the lease, a scrub would give the delivery back before its outcome is stored.
  await bus.process('worker').stop();
  await bus.start('worker', { ROUTEMASTER_WORKER_LEASE: '60' });
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const release = receiver.hold();
  await publisher.publish(topic, { url: url(1) });
  await receiver.delivery(1);
  await bus.redis.kill('SIGKILL');
  const refusal = await until(async () => {
    const beganMs = performance.now();
    const response = await fetch(`${bus.url}/topics/${topic}`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${publisher.token}:${publisher.secret}`)}` },
      body: JSON.stringify({ type: 'noop', url: url(2) }),
    });
    const { code } = (await response.json()) as { code: string };
    return { response, code, tookMs: performance.now() - beganMs };
  });
  assert.equal(refusal.response.status, 503);
  assert.match(refusal.response.headers.get('retry-after') ?? '', /^\d+$/);
  assert.equal(refusal.code, 'storage_unavailable');
  // A Redis that is silent is given up after five seconds.
  assert.ok(refusal.tookMs < 4500, `it took ${refusal.tookMs} ms`);
  assert.equal((await fetch(`${bus.url}/health`)).status, 200);
  const cookie = `routemaster_session=${'x'.repeat(32)}`;
  const page = await fetch(`${bus.url}/console/topics`, { headers: { cookie, 'sec-fetch-site': 'none' } });
  assert.equal(page.status, 503);
  assert.match(
    await page.text(),
    /Redis is away, and this page needs it\. Reload .* the log of the bus says why/,
  );
  const form = await fetch(`${bus.url}/console/clients`, {
    ...{ method: 'POST', body: new URLSearchParams({ name: 'shop' }) },
    headers: { cookie, 'sec-fetch-site': 'same-origin' },
  });
  assert.equal(form.status, 503);
  const said = await form.text();
  assert.match(said, /Redis is away, so it is unknown .* Go back in a moment, and look before you send/);
  assert.doesNotMatch(said, /Idempotency-Key/);

  release();
  await bus.process('worker').logs('Redis did not take the outcome of a job; trying again');
  await bus.redis.restart();
  await until(async () => (await subscriber.report()).events.queued === 0);
  assert.equal(receiver.deliveries.length, 1);
});

test('processes that start while Redis is away wait for it', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  await bus.process('worker').stop();
  await bus.redis.kill('SIGKILL');
  const started = bus.start('worker');
  await until(() => bus.process('worker').log.some(({ msg }) => /Redis is away/.test(msg)));
  await bus.redis.restart();
  await started;
  await until(() => publisher.publish(topic, { url: url(1) }).then(() => true));
  await receiver.delivery(1);
});

test('a worker that waits for Redis stops at SIGTERM', async () => {
  await bus.process('worker').stop();
  await bus.redis.kill('SIGKILL');
  const started = bus.start('worker').catch(() => 'ended');
  const worker = bus.process('worker');
  await until(() => worker.log.some(({ msg }) => /Redis is away/.test(msg)));
  assert.deepEqual(await worker.stop(), { code: 0, signal: null });
  assert.equal(await started, 'ended');
  await bus.redis.restart();
});

test('a worker that starts while the connection is cut delivers nevertheless', async (t) => {
  const proxy = await MeddlingProxy.toRedis(bus.redis.socketPath ?? assert.fail());
  t.after(() => proxy.stop());
  void proxy.strike(piece('request', 'taken_over\r\n'), { end: 'cut' });
  const env = { ROUTEMASTER_REDIS_URL: proxy.url, ROUTEMASTER_COMPATIBILITY: 'none' };
  const worker = await bus.start('worker', env);
  assert.equal(proxy.strikes, 1);
  await worker.stop();
});

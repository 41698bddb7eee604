import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../harness/until.ts';
import { bus } from './default_bus.ts';

test('a batch without a job is delivered after the next sweep, which logs and counts the finding', async (t) => {
  bus.announceError(/^the sweep found an inconsistency/);
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 3_600_000, max: 10 });
  await publisher.publish(topic, { url: 'https://shop.example.com/1' });
  const { redis, keys } = bus.store;
  const [bid = ''] = await redis.zrange(keys.batches_queued(subscriber.token), '0', '-1');
  const scheduled = await redis.zrangeBuffer(keys.jobs_scheduled('main'), '0', '-1');
  const job = scheduled.find((each) => each.includes(bid));
  assert.ok(job);
  await redis.multi().zrem(keys.jobs_scheduled('main'), job).srem(keys.jobs_index('main'), job).exec();

  const delivery = await receiver.delivery(1);
  assert.equal(delivery.id, bid);
  const line = await bus.process('worker').logs('the sweep found an inconsistency and repaired it');
  assert.deepEqual([line.kind, line.bid], ['batch_without_job', bid]);
  const counted = () => bus.metric('routemaster_sweep_findings_total', { kind: 'batch_without_job' });
  await until(async () => (await counted()) === 1);
  await until(async () => (await subscriber.report()).events.queued === 0);
});

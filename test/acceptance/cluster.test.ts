import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { tagOf } from '../../harness/redis/private_cluster.ts';
import { until } from '../../harness/until.ts';
import { SteadyPublisher } from './steady_publisher.ts';

const bus = RunningBus.forTests({
  cluster: true,
  env: { ROUTEMASTER_PARTITIONS: '4', ROUTEMASTER_MIN_REPLICAS: '1', ROUTEMASTER_WORKER_LEASE: '3' },
});

/** Resolves when the figures say that a partition is away. */
async function isShownAsAway(partition: number): Promise<void> {
  const line = new RegExp(`^routemaster_partition_up{partition="${partition}"} 0$`, 'm');
  const headers = { authorization: `Basic ${btoa(`${ROOT_KEY}:x`)}` };
  await until(async () => line.test(await (await fetch(`${bus.url}/metrics`, { headers })).text()));
}

test('a bus goes on when a master of its cluster dies, and loses no accepted event', async (t) => {
  const scenes = await Promise.all(Array.from({ length: 4 }, () => bus.scene(t, { timeout: 20, max: 10 })));
  const pids = [bus.process('web').pid, bus.process('worker').pid];
  const ledgers = scenes.map(({ publisher, topic }) => new SteadyPublisher(t, publisher, topic, topic));
  await Promise.all(ledgers.map((each) => each.accepts(20)));
  const tag = tagOf(bus.partitions.ofTopic(scenes[0]?.topic ?? ''));
  // The bus waits for replicas only when it publishes: the subscriptions must have reached them before.
  const { all } = bus.partitions;
  await until(async () =>
    (await Promise.all(all.map((each) => each.command((redis) => redis.wait(1, 1000))))).every(Boolean),
  );
  const killed = await bus.cluster.masterOf(tag);
  await killed.kill();
  const gone = bus.partitions.ofTopic(scenes[0]?.topic ?? '').index;
  await Promise.all([ledgers[0]?.isRefused(), isShownAsAway(gone)]);
  await bus.cluster.failsOver(tag, killed);
  // Publishing to topics of the new master waits for its replica, which the killed node becomes.
  await killed.restart();
  await Promise.all(ledgers.map((each) => each.accepts(20)));
  await Promise.all(ledgers.map((each) => each.stop()));
  for (const [index, { receiver, subscriber }] of scenes.entries()) {
    const missing = () => receiver.missing(ledgers[index]?.accepted ?? []);
    await until(() => missing().length === 0, { what: 'all that was accepted is delivered' });
    await until(async () => (await subscriber.report()).events.queued === 0);
  }
  assert.deepEqual([bus.process('web').pid, bus.process('worker').pid], pids, 'no process ended');
});

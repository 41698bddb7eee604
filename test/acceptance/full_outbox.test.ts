import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { tagOf } from '../../harness/redis/private_cluster.ts';
import { nameIn } from '../../harness/scripts/crossing.ts';
import { until } from '../../harness/until.ts';
import type { Partition } from '../../src/store/partition.ts';

const MAX_OUTBOX_BYTES = 100_000;
/** What triggers publish in a second, some 100 KB, while nothing holds them up. */
const NAMES = Array.from({ length: 10 }, (_, n) => `tick${n}`);
const EVENT = { type: 'noop', url: 'https://shop.example.com/', data: 'x'.repeat(10_000) };

const bus = RunningBus.forTests({
  cluster: true,
  redis: { 'cluster-replica-no-failover': 'yes', appendonly: 'yes', appendfsync: 'always' },
  env: {
    ROUTEMASTER_PARTITIONS: '4',
    ROUTEMASTER_WORKER_LEASE: '3',
    ROUTEMASTER_MAX_OUTBOX_BYTES: String(MAX_OUTBOX_BYTES),
  },
});

test('triggers wait when an outbox is full, because a master hangs, and fire for all times later', async (t) => {
  const { control: home, all } = bus.partitions;
  const { redis, keys } = home;
  const masterOf = (partition: Partition) => bus.cluster.masterOf(tagOf(partition));
  const away = all.at(-1) as Partition;
  const hanging = await masterOf(away);
  assert.notEqual(hanging, await masterOf(home));
  let subscriber = await bus.client('subscriber');
  while (bus.partitions.ofSubscriber(subscriber.token) !== away) subscriber = await bus.client('subscriber');
  const topic = nameIn(bus.partitions, home.index, 'widgets');
  const receiver = await bus.receiver(t);
  const { callback } = receiver;
  await subscriber.call('POST', '/subscription', { topics: [topic], callback, uuid: 'me', timeout: 0 });
  const publisher = await bus.client('publisher');
  const trigger = { topic, event: EVENT, schedule: { every: 1000 }, catch_up: 'all' };
  for (const name of NAMES) await publisher.call('PUT', `/triggers/${name}`, trigger);
  // The API does not answer about triggers while a partition is away.
  const stored = () => Promise.all(NAMES.map((name) => redis.hgetall(keys.trigger(publisher.token, name))));
  const every = async (holds: (trigger: Record<string, string>) => boolean) => (await stored()).every(holds);

  await hanging.kill('SIGSTOP');
  await until(() => every(({ next_at }) => Number(next_at) < Date.now() - 3000), { what: 'all wait' });
  const [sent, aside] = [
    await redis.hget(keys.outboxes_sent(), 'bytes'),
    await redis.hget(keys.outboxes_bytes(), String(away.index)),
  ];
  const bytes = Number(sent) + Number(aside);
  assert.ok(bytes >= MAX_OUTBOX_BYTES && bytes < 2.5 * MAX_OUTBOX_BYTES, `${bytes} bytes wait`);
  await hanging.kill('SIGCONT');

  await until(() => every(({ next_at }) => Number(next_at) > Date.now()), { what: 'all have caught up' });
  for (const name of NAMES) await publisher.call('PUT', `/triggers/${name}`, { ...trigger, paused: true });
  const counts = (await stored()).map(({ fired, missed }) => [Number(fired), Number(missed)] as const);
  const fired = counts.reduce((sum, [count]) => sum + count, 0);
  assert.ok(counts.every(([, missed]) => missed === 0));
  await until(() => receiver.events.length >= fired, { what: 'all is delivered' });
  assert.equal(new Set(receiver.events.map(({ id }) => id)).size, fired);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer } from '../../harness/http/receiver.ts';
import { processesWith } from '../../harness/processes/processes.ts';
import type { Scene } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import { bus } from './short_lease_bus.ts';

const url = (n: number) => `https://shop.example.com/widgets/${n}`;

/** Returns an event in MessagePack, as the Ruby Routemaster stored it. Decoded, it takes a hundred times its size. */
function poison(): Buffer {
  const maps = 3_000_000;
  const before = Buffer.from('\x92\xa1e\x85\xa1t\x01\xa1o\xa1x\xa1y\xa1x\xa1u\xa1x\xa1d\xdd----', 'latin1');
  before.writeUInt32BE(maps, before.length - 4);
  return Buffer.concat([before, Buffer.alloc(maps, 0x80)]);
}

/** Puts the poison in place of the event in the subscriber's only batch. */
async function poisonBatch({ subscriber }: Scene): Promise<void> {
  const { redis, keys } = bus.store;
  const [bid = ''] = await redis.zrange(keys.batches_queued(subscriber.token), '0', '-1');
  await redis.lset(keys.batch(bid), 3, poison());
}

interface Letter {
  id: string;
  reason: string;
  attempts: number;
}

test('a batch that kills its workers is buried after the third, and its neighbours are delivered', async (t) => {
  bus.announceError(/^(a thread died|a quarantine died|gave up on a batch: it is a dead letter now)$/);
  // The lines that Node writes when a process has no memory left.
  bus.announceError(/^$|<---|Mark-Compact|Scavenge|FATAL ERROR|Native stack trace|^ ?\d+: 0x/);
  await bus.process('worker').stop();
  await bus.start('worker', { NODE_OPTIONS: '--max-old-space-size=60' });
  const bad = await bus.scene(t, { timeout: 60_000, max: 2 });
  await bad.publisher.publish(bad.topic, { url: url(0) });
  await poisonBatch(bad);
  await bad.publisher.publish(bad.topic, { url: url(1) });
  const good = await bus.scene(t);
  const urls = Array.from({ length: 40 }, (_, n) => url(n));
  for (const each of urls) await good.publisher.publish(good.topic, { url: each });
  const letters = async () => (await bad.subscriber.call('GET', '/dead_letters')) as Letter[];
  const letter = await until(async () => (await letters())[0], { timeoutMs: 60_000 });
  assert.equal(letter.reason, 'killed_worker');
  // On a busy machine a worker may read the batch for longer than its lease, and die twice of it.
  assert.ok(letter.attempts >= 3, `${letter.attempts} attempts`);
  const { redis, keys } = bus.store;
  const history = await redis.lrange(keys.attempts(letter.id), 0, -1);
  assert.deepEqual(
    history.map((each) => JSON.parse(each).reason),
    Array(letter.attempts).fill('its worker died'),
  );
  await until(() => good.receiver.missing(urls).length === 0);
  const counted = () => bus.metric('routemaster_batches_dead_lettered_total', { reason: 'killed_worker' });
  await until(async () => (await counted()) === 1);
});

test('batches that were in flight at many kills of processes are delivered in the end', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  receiver.usual = answer.hang;
  const urls = [1, 2, 3].map(url);
  await publisher.publish(
    topic,
    urls.map((each) => ({ url: each })),
  );
  for (let kills = 0, seen = 0; kills < 4; kills++) {
    await until(() => receiver.deliveries.length > seen);
    seen = receiver.deliveries.length;
    await bus.process('worker').kill();
    await bus.start('worker');
  }
  receiver.usual = answer.status(204);
  await until(async () => (await subscriber.report()).events.queued === 0, { timeoutMs: 60_000 });
  assert.deepEqual(receiver.missing(urls), []);
  assert.deepEqual(await subscriber.call('GET', '/dead_letters'), []);
});

test('a worker process that stops ends its quarantine, which gives back what it delivers', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  receiver.usual = answer.hang;
  await publisher.publish(topic, { url: url(1) });
  for (let kills = 1; kills <= 2; kills++) {
    await receiver.delivery(kills);
    await bus.process('worker').kill();
    await bus.start('worker', { ROUTEMASTER_TIMEOUT: '2' });
  }
  await receiver.delivery(3);
  const quarantines = () =>
    processesWith(bus.redis.url).filter(({ command }) => command.includes('quarantine_process'));
  assert.equal(quarantines().length, 1);
  assert.deepEqual(await bus.process('worker').stop(), { code: 0, signal: null });
  assert.deepEqual(quarantines(), []);
  await bus.start('worker');
  receiver.usual = answer.status(204);
  await until(async () => (await subscriber.report()).events.queued === 0);
  assert.deepEqual(await subscriber.call('GET', '/dead_letters'), []);
});

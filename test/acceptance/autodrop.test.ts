import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BusAnswerError } from '../../src/local/bus_client.ts';
import { eventJson } from '../../src/models/event_json.ts';
import { answer, type Receiver } from '../support/receiver.ts';
import { type Client, RunningBus } from '../support/running_bus.ts';
import { until } from '../support/until.ts';

const MOST_BYTES = 20 * 1024 * 1024;
const EVENTS_A_REQUEST = 20;

const bus = RunningBus.forTests({ redis: { maxmemory: String(MOST_BYTES) } });

/** Publishes numbered events until the storage is full; answers how many were accepted. */
async function fill(publisher: Client, topic: string, from: number): Promise<number> {
  for (let n = from; ; n += EVENTS_A_REQUEST) {
    const events = Array.from({ length: EVENTS_A_REQUEST }, (_, i) => ({
      url: `https://shop.example.com/${n + i}`,
      data: 'x'.repeat(8_000),
    }));
    try {
      await publisher.publish(topic, events);
    } catch (error) {
      assert.ok(error instanceof BusAnswerError && error.status === 503, String(error));
      assert.match(error.message, /storage_full/);
      return n;
    }
  }
}

async function queuedNumbers(token: string): Promise<number[]> {
  const { redis, keys } = bus.store;
  const numbers: number[] = [];
  for (const bid of await redis.zrange(keys.batches_queued(token), '0', '-1')) {
    const events = await redis.lrangeBuffer(keys.batch(bid), '3', '-1');
    numbers.push(...events.map((packed) => numberOf(JSON.parse(eventJson(packed)).url)));
  }
  return numbers;
}

const numberOf = (url: string): number => Number(/\d+$/.exec(url));
const counted = (token: string, name: string) =>
  bus.metric(`routemaster_${name}_total`, { subscriber: token });

async function memoryUsed(): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await bus.store.redis.info('memory'))?.[1]);
}

/** Every event was either delivered, or is queued, or was counted as dropped. */
async function assertAccountedFor(token: string, receiver: Receiver, accepted: number): Promise<void> {
  await until(async () => {
    const gone = (await counted(token, 'events_autodropped')) + new Set(receiver.urls).size;
    return gone + (await queuedNumbers(token)).length === accepted;
  });
}

test('a full Redis drops its oldest batches, counts them, and takes events again', async (t) => {
  const { publisher, topic, subscriber: away, receiver: awayReceiver } = await bus.scene(t, { max: 50 });
  // After the first attempt at the first batch, all others wait for an hour.
  awayReceiver.usual = answer.status(503, { 'retry-after': '3600' });
  const present = await bus.client('present');
  const presentReceiver = await bus.receiver(t);
  const { callback } = presentReceiver;
  await present.call('POST', '/subscription', { topics: [topic], callback, timeout: 0, max: 50 });

  const worker = bus.process('worker');
  let accepted = 0;
  // A single refusal may come from memory that was needed for a moment only, and drops nothing.
  while (!worker.log.some(({ msg }) => msg === 'dropped the oldest batches')) {
    accepted = await fill(publisher, topic, accepted);
  }

  await t.test('the oldest went, and no more than had to', async () => {
    await until(async () => {
      const queued = await queuedNumbers(away.token);
      const first = queued[0] ?? 0;
      const newest = Array.from({ length: accepted - first }, (_, i) => first + i);
      assert.deepEqual(queued, newest);
      return first > 0;
    });
    assert.ok((await memoryUsed()) > MOST_BYTES / 2, `${await memoryUsed()} bytes are left in use`);
  });

  await t.test('what was dropped is counted to the event', async () => {
    await assertAccountedFor(away.token, awayReceiver, accepted);
    await assertAccountedFor(present.token, presentReceiver, accepted);
    assert.equal(await counted(away.token, 'events_added'), accepted);
  });

  await t.test('it goes on, again and again', async () => {
    for (let round = 0; round < 3; round++) accepted = await fill(publisher, topic, accepted);
    await until(() => fits(publisher, topic, accepted), { what: 'a publish is taken' });
    accepted++;
    await assertAccountedFor(away.token, awayReceiver, accepted);
    await assertAccountedFor(present.token, presentReceiver, accepted);
    assert.equal(bus.process('worker'), worker);
  });
});

async function fits(publisher: Client, topic: string, n: number): Promise<boolean> {
  await publisher.publish(topic, { url: `https://shop.example.com/${n}` });
  return true;
}

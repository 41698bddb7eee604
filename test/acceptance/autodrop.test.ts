import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BusAnswerError } from '../../harness/http/bus_client.ts';
import type { Client } from '../../harness/http/client.ts';
import { answer, type Receiver } from '../../harness/http/receiver.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import { dropNoticeHeader } from '../../src/subscribing/drop_notice.ts';

const MAX_BYTES = 16 * 1024 * 1024;
const EVENTS_A_REQUEST = 20;
const EVENT_BYTES = 8_000;
/**
 * Reading a full queue, or publishing to a full Redis, takes much CPU: it is done again less often than other things.
 */
const SELDOM = { everyMs: 100 };

const bus = RunningBus.forTests({ redis: { maxmemory: String(MAX_BYTES) } });

/** The events of one request. */
const numbered = (from: number) =>
  Array.from({ length: EVENTS_A_REQUEST }, (_, i) => ({
    url: `https://shop.example.com/${from + i}`,
    data: 'x'.repeat(EVENT_BYTES),
  }));

/** Publishes numbered events until the storage is full. Resolves with the number of the first refused event. */
async function fill(publisher: Client, topic: string, from: number): Promise<number> {
  for (let n = from; ; n += EVENTS_A_REQUEST) {
    try {
      await publisher.publish(topic, numbered(n));
    } catch (error) {
      assert.ok(error instanceof BusAnswerError && error.status === 503, String(error));
      assert.match(error.message, /storage_full/);
      return n;
    }
  }
}

async function queuedNumbers(token: string): Promise<number[]> {
  const { redis, keys } = bus.partitions.ofSubscriber(token);
  const numbers: number[] = [];
  for (const bid of await redis.zrange(keys.batches_queued(token), '0', '-1')) {
    const events = await redis.lrange(keys.batch(bid), '3', '-1');
    numbers.push(...events.map((event) => numberOf(JSON.parse(event).url)));
  }
  return numbers;
}

const numberOf = (url: string): number => Number(/\d+$/.exec(url));
const counted = (token: string, name: string) =>
  bus.metric(`routemaster_${name}_total`, { subscriber: token });

/** True if no partition has anything to drop, or to move to another. */
async function hasNoJob(): Promise<boolean> {
  const { all } = bus.partitions;
  const jobs = await Promise.all(all.map(({ redis, keys }) => redis.scard(keys.jobs_index('aux'))));
  return jobs.every((each) => each === 0);
}

async function memoryUsed(): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await bus.store.redis.info('memory'))?.[1]);
}

async function firstAttemptFailed(token: string): Promise<boolean> {
  const { redis, keys } = bus.partitions.ofSubscriber(token);
  const [oldest = ''] = await redis.zrange(keys.batches_queued(token), '0', '0');
  return (await redis.exists(keys.attempts(oldest))) === 1;
}

/** Every event was either delivered, or is queued, or was counted as dropped. */
async function assertAccountedFor(token: string, receiver: Receiver, accepted: number): Promise<void> {
  await until(async () => {
    const gone = (await counted(token, 'events_autodropped')) + new Set(receiver.urls).size;
    return gone + (await queuedNumbers(token)).length === accepted;
  }, SELDOM);
}

test('a full Redis drops its oldest batches, counts them, and takes events again', async (t) => {
  const { publisher, topic, subscriber: away, receiver: awayReceiver } = await bus.scene(t, { max: 50 });
  // After the first attempt at the first batch, all others wait for an hour.
  awayReceiver.usual = answer.status(503, { 'retry-after': '3600' });
  const present = await bus.client('present');
  const presentReceiver = await bus.receiver(t);
  const { callback } = presentReceiver;
  await present.call('POST', '/subscription', { topics: [topic], callback, timeout: 0, max: 50 });

  // Waits until the first batch is not being delivered any more: autodrop would pass over it.
  let accepted = 3 * EVENTS_A_REQUEST;
  for (let n = 0; n < accepted; n += EVENTS_A_REQUEST) await publisher.publish(topic, numbered(n));
  await until(() => firstAttemptFailed(away.token));

  const worker = bus.process('worker');
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
    }, SELDOM);
    // Half of the memory was the queue of `present`, whose batches are delivered meanwhile.
    assert.ok((await memoryUsed()) > MAX_BYTES / 4, `${await memoryUsed()} bytes are left in use`);
  });

  await t.test('what was dropped is counted to the event', async () => {
    await assertAccountedFor(away.token, awayReceiver, accepted);
    await assertAccountedFor(present.token, presentReceiver, accepted);
    assert.equal(await counted(away.token, 'events_added'), accepted);
    // The worker may drop once more meanwhile, and counts what it dropped a moment later.
    for (const client of [away, present])
      await until(async () => {
        const { dropped } = await client.report();
        return (dropped?.events ?? 0) === (await counted(client.token, 'events_autodropped'));
      }, SELDOM);
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

test('a publisher is told that the storage is full, and a subscriber of what it missed', async (t) => {
  for (const { subscriber } of (await bus.root.call('GET', '/subscriptions')) as { subscriber: string }[])
    await bus.root.call('DELETE', `/subscribers/${subscriber}`);
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const other = `${topic}_too`;
  const { callback } = receiver;
  const subscribe = () =>
    subscriber.call('POST', '/subscription', { topics: [topic, other], callback, timeout: 0, max: 50 });
  await subscribe();
  const accepted: Record<string, number> = { [topic]: 0, [other]: 0 };
  const total = () => (accepted[topic] ?? 0) + (accepted[other] ?? 0);

  await t.test('a publisher is refused for a while, again and again', async () => {
    // 410 pauses the subscriber: its batches are kept until it subscribes again.
    receiver.answers(answer.status(410));
    let refusals = 0;
    while (total() * EVENT_BYTES < 2 * MAX_BYTES) {
      const name = Object.keys(accepted)[(total() / EVENTS_A_REQUEST) % 3 && 1] ?? '';
      const events = numbered(total());
      await until(async () => {
        const response = await post(publisher, name, events);
        if (response.status === 204) return true;
        refusals++;
        const { code } = (await response.json()) as { code: string };
        assert.deepEqual([response.status, code], [503, 'storage_full']);
        assert.equal(response.headers.get('retry-after'), '2');
        return false;
      }, SELDOM);
      accepted[name] = (accepted[name] ?? 0) + EVENTS_A_REQUEST;
    }
    assert.ok(refusals > 1, `${refusals} refusals`);
  });

  await t.test('the API shows what the subscriber misses', async () => {
    await until(hasNoJob, { what: 'autodrop is over' });
    const { events, dropped } = await subscriber.report();
    assert.ok(dropped && dropped.batches > 0 && dropped.from < dropped.to);
    assert.equal(dropped.events + events.queued, total());
    await until(async () => (await counted(subscriber.token, 'events_autodropped')) === dropped.events);
    assert.equal(dropped.untold, dropped.events);
  });

  await t.test('one delivery tells of it, and what is missing is what it says', async () => {
    await subscribe();
    await until(async () => (await subscriber.report()).events.queued === 0);
    const { dropped } = await subscriber.report();
    assert.ok(dropped);
    const { from: fromMs, to: toMs, last_at, untold, ...drops } = dropped;
    assert.equal(untold, 0);
    assert.ok(last_at !== null && last_at >= toMs);
    const headers = receiver.deliveries
      .filter(({ taken }) => taken)
      .map(({ headers }) => headers['routemaster-gap']);
    assert.deepEqual(
      headers.filter((header) => header !== undefined),
      [dropNoticeHeader({ ...drops, fromMs, toMs })],
    );
    for (const [name, n] of Object.entries(accepted)) {
      const delivered = new Set(receiver.events.filter((each) => each.topic === name).map(({ url }) => url));
      assert.equal(delivered.size + (dropped.topics[name] ?? 0), n, name);
    }
  });
});

/** Publishes events. Resolves with the answer, also if it is an error. */
function post(publisher: Client, topic: string, events: object[]): Promise<Response> {
  const authorization = `Basic ${btoa(`${publisher.token}:${publisher.secret}`)}`;
  const body = JSON.stringify(events.map((event) => ({ type: 'create', ...event })));
  return fetch(`${bus.url}/topics/${topic}`, { method: 'POST', headers: { authorization }, body });
}

async function fits(publisher: Client, topic: string, n: number): Promise<boolean> {
  await publisher.publish(topic, { url: `https://shop.example.com/${n}` });
  return true;
}

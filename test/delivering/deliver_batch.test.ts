import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import tls from 'node:tls';
import { batchHandler, type HandlerSettings } from '../../harness/batch_handler.ts';
import { capturedLog } from '../../harness/captured_log.ts';
import { noOpenssl, selfSigned } from '../../harness/http/certificates.ts';
import { type Answer, answer, Receiver } from '../../harness/http/receiver.ts';
import { RUBY_EVENT } from '../../harness/redis/ruby_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { readDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { longName } from '../../harness/scripts/names.ts';
import { subscriptionsOf } from '../../harness/subscriptions.ts';
import { until } from '../../harness/until.ts';
import type { AttemptReport } from '../../src/delivering/attempt_report.ts';
import { promoteDue } from '../../src/maintenance/promoting.ts';
import { eventText } from '../../src/publishing/event.ts';
import type { WantedSubscription } from '../../src/subscribing/subscription.ts';
import { Workshop } from './workshop.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const { log, lines } = capturedLog();
const HOUR_MS = 3_600_000;
const url = (n: number) => `https://shop.example.com/${n}`;
const event = (n: number) =>
  eventText({ id: `e${n}`, topic: 'widgets', type: 'create', url: url(n), timestamp: 1 });

let receiver: Receiver;
let closing: (() => Promise<void>)[] = [];

/** Starts workers that deliver, and try failed batches again at once. */
async function deliver(settings: HandlerSettings = {}, count = 1): Promise<Workshop> {
  const { handler, close } = batchHandler(redis.store, log, { maxBackoffMs: 1, ...settings });
  const shop = await Workshop.open(redis.store, handler, { count });
  const promoting = setInterval(() => void promoteDue(redis.store), 2);
  closing.push(async () => {
    await shop.close();
    clearInterval(promoting);
    await close();
  });
  return shop;
}

async function subscribe(wanted: Partial<WantedSubscription> = {}, token = 'alice'): Promise<void> {
  const { callback } = receiver;
  const all = { topics: ['widgets'], callback, uuid: '', timeout: 0, max_events: 1, ...wanted };
  await subscriptionsOf(redis.store).subscribe(token, all);
  // A new subscriber has one delivery in flight, and its batches would not arrive in order.
  await redis.store.redis.hsetnx(redis.store.keys.subscriber(token), 'sent', 1);
}

const letters = () => readDeadLetters(redis.store);
const isOver = () => until(async () => (await bus.state()).main.index.length === 0);
async function history(name: string): Promise<AttemptReport[]> {
  const { redis: commands, keys } = redis.store;
  const list = await commands.lrange(keys.attempts(longName(name)), 0, -1);
  return list.map((each) => JSON.parse(each));
}

beforeEach(async () => {
  await redis.flush();
  receiver = await Receiver.start();
  closing = [() => receiver.stop()];
  lines.length = 0;
});
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  await assertConsistent(redis.store);
});

describe('a batch that its subscriber refuses becomes a dead letter', () => {
  test('after the attempts that the bus allows; the next batch is delivered', async () => {
    const { buried } = await deliver({ maxAttempts: 3 });
    await subscribe();
    receiver.answers(answer.status(500), answer.status(503), answer.status(400));
    await bus.publish('a', 'widgets', [event(1)]);
    await until(async () => 'a1' in (await letters()));
    await bus.publish('b', 'widgets', [event(2)]);
    await isOver();
    const { a1, ...others } = await letters();
    assert.deepEqual([a1?.reason, a1?.attempts, a1?.history, others], ['max_attempts', 3, 3, {}]);
    assert.deepEqual(
      receiver.deliveries.map(({ attempt }) => attempt),
      [1, 2, 3, 1],
    );
    assert.deepEqual(receiver.urls, [url(2)]);
    assert.deepEqual(buried, [['alice', 'max_attempts', 1]]);
  });

  test('after the attempts that its subscriber asked for, fewer or more', async () => {
    await deliver({ maxAttempts: 3 });
    receiver.usual = answer.status(500);
    await subscribe({ max_attempts: 1 });
    await subscribe({ max_attempts: 5, topics: ['gadgets'] }, 'bob');
    await bus.publish('a', 'widgets', [event(1)]);
    await bus.publish('b', 'gadgets', [event(2)]);
    await isOver();
    const { a1, b1 } = await letters();
    assert.deepEqual([a1?.attempts, b1?.attempts], [1, 5]);
  });

  test('at the maximum age of its subscriber, or else of the bus', async () => {
    await deliver({ maxAgeMs: 1, maxAttempts: 4 });
    receiver.usual = answer.status(500);
    await subscribe({ max_age: HOUR_MS });
    await subscribe({ topics: ['gadgets'] }, 'bob');
    await subscribe({ topics: ['gizmos'], max_age: 1 }, 'carol');
    for (const [seed, topic] of [
      ['a', 'widgets'],
      ['b', 'gadgets'],
      ['c', 'gizmos'],
    ] as const)
      await bus.publish(seed, topic, [event(1)]);
    await isOver();
    const { a1, b1, c1 } = await letters();
    assert.deepEqual([a1?.reason, b1?.reason, c1?.reason], ['max_attempts', 'max_age', 'max_age']);
    assert.deepEqual([b1?.attempts, c1?.attempts], [1, 1]);
  });

  test('counting its age from the takeover, if a Ruby Routemaster opened it', async () => {
    const takenOverAtMs = (await bus.nowMs()) + HOUR_MS;
    const { buried } = await deliver({ maxAgeMs: 1, maxAttempts: 3, takenOverAtMs });
    receiver.usual = answer.status(500);
    await subscribe();
    await bus.publish('a', 'widgets', [event(1)]);
    await isOver();
    assert.deepEqual([buried.length, (await letters()).a1?.reason], [1, 'max_attempts']);
  });

  test('untried, if its last attempt never ended: it may have killed its worker', async () => {
    await subscribe({ max_attempts: 1 });
    await bus.publish('a', 'widgets', [event(1)]);
    await bus.acquire(['w1']);
    await bus.scrub(-1);
    const { buried } = await deliver();
    await isOver();
    assert.deepEqual([receiver.deliveries, buried], [[], [['alice', 'max_attempts', 1]]]);
    assert.match((await history('a1')).at(-1)?.reason ?? '', /^no attempt is left/);
  });

  test('but never for its age alone: an old batch is still tried', async () => {
    await subscribe({ max_age: 1 });
    await bus.publish('a', 'widgets', [event(1)]);
    const now = await bus.nowMs();
    await until(async () => (await bus.nowMs()) > now + 5);
    await deliver();
    await isOver();
    assert.deepEqual([await letters(), receiver.urls], [{}, [url(1)]]);
  });
});

describe('the log calls a batch that is given up a dead letter', () => {
  const messages = () => lines.filter(({ death }) => death).map(({ msg, death }) => [msg, death]);

  test('when it is one', async () => {
    await deliver({ maxAttempts: 1 });
    await subscribe();
    receiver.answers(answer.status(500));
    await bus.publish('a', 'widgets', [event(1)]);
    await isOver();
    await until(() => messages().length > 0);
    assert.deepEqual(messages(), [['gave up on a batch: it is a dead letter now', 'max_attempts']]);
  });

  test('but not if its subscriber has left meanwhile, so that it is dropped', async () => {
    const { removed } = await deliver({ maxAttempts: 1 });
    await subscribe();
    receiver.answers((response) => {
      const leaving = redis.store.run('remove_subscriber', { token: 'alice', series: [] });
      void leaving.then(() => response.writeHead(500).end());
    });
    await bus.publish('a', 'widgets', [event(1)]);
    await until(() => removed.length > 0);
    await until(() => messages().length > 0);
    assert.deepEqual(messages(), [['dropped a batch: its subscriber has unsubscribed', 'max_attempts']]);
  });
});

describe('410 Gone', () => {
  test('pauses deliveries until the subscriber subscribes again', async () => {
    const { buried } = await deliver({ maxAttempts: 1 });
    await subscribe();
    receiver.answers(answer.text(410, 'moved out'));
    await bus.publish('a', 'widgets', [event(1)]);
    await until(async () => (await bus.subscriber('alice')).paused_at);
    await bus.publish('b', 'widgets', [event(2)]);
    await until(async () => (await bus.state()).lanes.waiting.alice?.length === 2);
    assert.equal(receiver.deliveries.length, 1);
    const [attempt] = await history('a1');
    assert.deepEqual([attempt?.status, attempt?.reason, attempt?.answer], [410, 'HTTP 410', 'moved out']);

    await subscribe();
    await isOver();
    assert.deepEqual(receiver.urls, [url(1), url(2)]);
    assert.deepEqual([await letters(), buried], [{}, []], 'no batch becomes a dead letter');
  });
});

test('410 Gone does not pause a subscriber that subscribed again while the answer was on its way', async () => {
  await deliver();
  await subscribe();
  receiver.answers((response) => void subscribe().then(() => response.writeHead(410).end()));
  await bus.publish('a', 'widgets', [event(1)]);
  await isOver();
  assert.deepEqual([receiver.deliveries.length, receiver.urls], [2, [url(1)]]);
});

for (const [max_attempts, taken] of [
  [2, [url(1), url(2)]],
  [1, [url(2)]],
] as const)
  test(`a former callback that refuses late does not hold back the new one (attempts: ${max_attempts})`, async () => {
    await deliver();
    await subscribe({ max_attempts });
    const other = await Receiver.start();
    closing.push(() => other.stop());
    const refuse = answer.status(503, { 'Retry-After': '3600' });
    receiver.answers((response) => void subscribe({ callback: other.callback }).then(() => refuse(response)));
    await bus.publish('a', 'widgets', [event(1), event(2)]);
    await isOver();
    assert.deepEqual([receiver.deliveries.length, other.urls], [1, taken]);
  });

test('batches that a former callback has refused do not wait at the new one for its Retry-After', async () => {
  await deliver({}, 8);
  await subscribe();
  const other = await Receiver.start();
  closing.push(() => other.stop());
  const refuse = answer.status(503, { 'Retry-After': '3600' });
  const held: (() => void)[] = [];
  const hold: Answer = (response) => {
    held.push(() => refuse(response));
    // A quarter of the workers may deliver to alice at a time: two of these eight.
    if (held.length === 2) for (const each of held) each();
  };
  receiver.answers(hold, hold);
  await bus.publish('a', 'widgets', [event(1), event(2)]);
  const { redis: commands, keys } = redis.store;
  await until(async () => (await commands.zcard(keys.jobs_scheduled('main'))) === 2);
  await subscribe({ callback: other.callback });
  await isOver();
  assert.deepEqual(other.urls.toSorted(), [url(1), url(2)]);
});

test('a batch that is refused when its subscriber has left is dropped at once, whatever Retry-After says', async () => {
  await deliver();
  await subscribe();
  const refuse = answer.status(503, { 'Retry-After': '3600' });
  const leave = () => bus.store.run('remove_subscriber', { token: 'alice', series: [] });
  receiver.answers((response) => void leave().then(() => refuse(response)));
  await bus.publish('a', 'widgets', [event(1)]);
  await isOver();
  assert.equal(receiver.deliveries.length, 1);
});

describe('the history of a batch records for each attempt', () => {
  test('its start, its duration, the status, and the first 256 bytes of the answer', async () => {
    await deliver({ maxAttempts: 2 });
    await subscribe();
    const long = 'no '.repeat(1000);
    receiver.answers(answer.text(500, long), answer.status(503));
    const before = await bus.nowMs();
    await bus.publish('a', 'widgets', [event(1)]);
    await isOver();
    const after = await bus.nowMs();
    const [first, second] = await history('a1');
    assert.deepEqual([first?.status, first?.reason, first?.answer], [500, 'HTTP 500', long.slice(0, 256)]);
    assert.deepEqual([second?.status, second?.reason, second?.answer], [503, 'HTTP 503', '']);
    for (const each of [first, second]) {
      assert.ok(each && each.at >= before && each.at + each.duration_ms <= after + 5, JSON.stringify(each));
      assert.ok(Number.isInteger(each.duration_ms) && each.duration_ms >= 0);
    }
  });

  test('why there was no answer', async () => {
    await deliver({ maxAttempts: 2, deliveryTimeoutMs: 1000 });
    await subscribe();
    receiver.answers(answer.hang, answer.reset);
    await bus.publish('a', 'widgets', [event(1)]);
    await isOver();
    const [late, reset] = await history('a1');
    assert.deepEqual([late?.status, late?.reason, late?.answer], [null, 'no answer within 1000 ms', null]);
    assert.ok(Number(late?.duration_ms) >= 999);
    assert.deepEqual([reset?.status, reset?.answer], [null, null]);
    assert.match(reset?.reason ?? '', /reset|hang up|closed/i);
  });

  test('an answer that is not text, with replacement characters', async () => {
    await deliver({ maxAttempts: 1 });
    await subscribe();
    receiver.answers((response) => void response.writeHead(500).end(Buffer.from([0xff, 0x00, 0x41])));
    await bus.publish('a', 'widgets', [event(1)]);
    await isOver();
    assert.equal((await history('a1'))[0]?.answer, '\ufffd\ufffdA');
  });
});

test('a slow body of an answer holds a worker for a fifth of a second at most', async () => {
  await deliver({ maxAttempts: 1 });
  await subscribe();
  receiver.answers(answer.drip(500, 'wait for it'));
  await bus.publish('a', 'widgets', [event(1)]);
  await bus.publish('b', 'widgets', [event(2)]);
  const dripping = await receiver.delivery(1);
  const next = await receiver.delivery(2);
  const tookMs = next.atMs - dripping.atMs;
  assert.ok(tookMs >= 150 && tookMs < 30_000, `${tookMs} ms`);
  await isOver();
  assert.match((await history('a1'))[0]?.answer ?? '', /^wait for it\.*$/);
});

test('a refusal is settled as soon as the beginning of its body has arrived', async () => {
  await deliver({ maxAttempts: 1 });
  await subscribe();
  receiver.usual = answer.drip(500, 'x'.repeat(300));
  // Without that each attempt would take 200 ms. On a busy machine some do.
  const durationsMs: number[] = [];
  for (const name of 'abcdefghij') {
    await bus.publish(name, 'widgets', [event(1)]);
    await isOver();
    const [attempt] = await history(`${name}1`);
    assert.equal(attempt?.answer, 'x'.repeat(256));
    durationsMs.push(Number(attempt?.duration_ms));
    if (Number(attempt?.duration_ms) < 190) return;
  }
  assert.fail(`each took 200 ms: ${durationsMs}`);
});

describe('a payload that cannot be decoded', () => {
  test('becomes a dead letter at once; nothing is sent, health stays, and other batches are delivered', async () => {
    const { buried, grants } = await deliver();
    await subscribe();
    const garbled = [Buffer.from('garbled'), RUBY_EVENT.subarray(0, 20), Buffer.from([0xc1])];
    for (const [i, bad] of garbled.entries())
      await bus.publish(String.fromCharCode(97 + i), 'widgets', [bad]);
    await bus.publish('good', 'widgets', [event(2)]);
    await isOver();
    const found = await letters();
    assert.deepEqual(Object.keys(found), ['a1', 'b1', 'c1']);
    for (const { reason, attempts, history: kept } of Object.values(found))
      assert.deepEqual([reason, attempts, kept], ['failed_in_bus', 1, 1]);
    assert.deepEqual(receiver.urls, [url(2)]);
    assert.equal(grants.length, 4, 'none was tried again');
    assert.deepEqual(buried, Array(3).fill(['alice', 'failed_in_bus', 1]));
    const { health_points, throttled_until } = await bus.subscriber('alice');
    assert.deepEqual([health_points, throttled_until], ['100', undefined]);
    const [attempt] = await history('a1');
    assert.deepEqual([attempt?.status, attempt?.answer], [null, null]);
    assert.notEqual(attempt?.reason, '');
  });

  test('takes the other events of its batch along, unchanged', async () => {
    await deliver();
    await subscribe({ max_events: 3 });
    await bus.publish('a', 'widgets', [event(1), Buffer.from('garbled'), event(3)]);
    await isOver();
    assert.equal((await letters()).a1?.events.length, 3);
  });
});

test('a long batch, whose events the worker reads itself, arrives whole and in order', async () => {
  await subscribe({ max_events: 10_000, max_bytes: 16_777_216 });
  const numbers = Array.from({ length: 120 }, (_, n) => n);
  const long = (n: number) => event(n).replace(/}$/, `,"data":"${'x'.repeat(30_000)}"}`);
  await bus.publish('a', 'widgets', numbers.map(long));
  await deliver();
  await isOver();
  assert.equal(receiver.deliveries.length, 1);
  assert.deepEqual(receiver.urls, numbers.map(url));
});

test('the reason of a failure is short in the log too, such as that of a certificate with many names', {
  skip: noOpenssl,
}, async (t) => {
  const names = Array.from({ length: 100 }, (_, n) => `DNS:${n}.${'x'.repeat(60)}.example`);
  const identity = selfSigned(names.join());
  const usual = tls.getCACertificates('default');
  tls.setDefaultCACertificates([...usual, identity.cert]);
  t.after(() => tls.setDefaultCACertificates(usual));
  const other = await Receiver.start(identity);
  t.after(() => other.stop());
  await deliver({ maxAttempts: 2 });
  await subscribe({ callback: other.callback.replace('127.0.0.1', 'localhost') });
  await bus.publish('a', 'widgets', [event(1)]);
  await isOver();
  const reasons = lines.flatMap(({ reason }) => (typeof reason === 'string' ? reason : []));
  assert.equal(reasons.length, 2);
  for (const reason of reasons) {
    assert.match(reason, /^ERR_TLS_CERT_ALTNAME_INVALID/);
    assert.ok(reason.length <= 256, `${reason.length} characters`);
  }
});

test('a callback that is not a URL makes a dead letter without costing health', async () => {
  await deliver();
  await bus.subscribe('alice', { max: 1 });
  await redis.store.redis.hset('subscriber:alice', 'callback', 'nowhere');
  await bus.publish('a', 'widgets', [event(1)]);
  await isOver();
  assert.equal((await letters()).a1?.reason, 'failed_in_bus');
});

test('a subscriber that has unsubscribed is not called, and its batch is deleted', async () => {
  await subscribe();
  await bus.publish('a', 'widgets', [event(1)]);
  await redis.store.run('remove_subscriber', { token: 'alice', series: [] });
  await deliver();
  await isOver();
  assert.deepEqual([receiver.deliveries.length, await letters(), (await bus.state()).batches], [0, {}, {}]);
});

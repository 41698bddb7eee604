import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { MeddlingProxy, piece } from '../../../harness/meddling_proxy.ts';
import { until } from '../../../harness/until.ts';
import {
  BadBodyError,
  BadEventError,
  type NewEvent,
  PublishAllError,
  Routemaster,
  TopicClaimedError,
} from '../../../packages/client/src/index.ts';
import { bus } from '../default_bus.ts';

const url = (n: number) => `https://shop.example.com/orders/${n}`;
const urls = (count: number) => Array.from({ length: count }, (_, n) => url(n));

/** Makes a client that publishes, and an ordered subscriber of its topic with its receiver. */
async function scene(t: { after(end: () => unknown): void }, max = 1000) {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const { callback } = receiver;
  await subscriber.call('POST', '/subscription', {
    topics: [topic],
    callback,
    timeout: 0,
    max,
    ordered: true,
  });
  const { token, secret } = publisher;
  return { shop: new Routemaster({ url: bus.url, token, secret }), topic, receiver, token, secret };
}

test('events arrive with what was given', async (t) => {
  const { shop, topic, receiver } = await scene(t);
  await shop.created(topic, url(1), { id: 'my-id', timestamp: 12345, data: { price: 42 } });
  await shop.updated(topic, url(1));
  await shop.deleted(topic, url(1));
  await shop.noop(topic, url(1), { data: null });
  await until(() => receiver.events.length === 4);
  const [created, ...others] = receiver.events;
  assert.deepEqual(created, {
    id: 'my-id',
    topic,
    type: 'create',
    url: url(1),
    t: 12345,
    data: { price: 42 },
  });
  assert.deepEqual(
    others.map(({ type, data }) => [type, data]),
    [
      ['update', undefined],
      ['delete', undefined],
      ['noop', undefined],
    ],
  );
});

test('an event has the fields that the bus takes', async (t) => {
  const fields = { id: 1, type: 1, url: 1, timestamp: 1, data: 1, at: 1, delay: 1 } satisfies Record<
    keyof NewEvent,
    1
  >;
  const { shop, topic } = await scene(t);
  const event = { type: 'noop', url: url(1), other: 1 } as NewEvent;
  const names = Object.keys(fields);
  const detail = `unknown field "other"; use ${names.join(', ')}`;
  await assert.rejects(shop.publish(topic, event), { detail });
  const further = names.filter((name) => name !== 'type' && name !== 'url').join(', ');
  assert.ok(
    readFileSync('packages/client/README.md', 'utf8').includes(`(topic, url, { ${further} })`),
    further,
  );
});

test('events are stored in the order of the calls, and each has its own outcome', async (t) => {
  const { shop, topic, receiver } = await scene(t);
  const bad: Record<number, Partial<NewEvent>> = {
    0: { type: 'upsert' as never },
    17: { url: 'http://shop.example.com' },
    50: { data: '\ud800' },
    51: { data: 'x'.repeat(70_000) },
    298: { timestamp: 1.5 },
    299: { id: 'white space' },
  };
  const publishes = urls(300).map((each, n) => shop.publish(topic, { type: 'update', url: each, ...bad[n] }));
  const outcomes = await Promise.allSettled(publishes);
  const refused = outcomes.flatMap((outcome, n) =>
    outcome.status === 'rejected' ? [[n, outcome.reason]] : [],
  );
  assert.deepEqual(
    refused.map(([n]) => n),
    Object.keys(bad).map(Number),
  );
  for (const [n, error] of refused)
    assert.ok(error instanceof (n === 50 ? BadBodyError : BadEventError), `${n}: ${error}`);
  assert.match(
    String(refused[1]?.[1]),
    /^BadEventError: url must be an https:\/\/ URL, not "http:\/\/shop.example.com"$/,
  );
  const good = urls(300).filter((_, n) => !(n in bad));
  await until(() => receiver.events.length >= good.length);
  assert.deepEqual(receiver.urls, good);
});

test('a timestamp in seconds is refused, as the bus would take it for 1970', async (t) => {
  const { shop, topic, receiver } = await scene(t);
  const publish = (timestamp: number) => shop.noop(topic, url(1), { timestamp });
  const atSeconds = Math.floor(Date.now() / 1000);
  const others = [0, 999_999_999, 10_000_000_000, Date.now()];
  const outcomes = await Promise.allSettled([publish(atSeconds), ...others.map(publish)]);
  const message = `RangeError: timestamp ${atSeconds} looks like seconds; give milliseconds since 1970`;
  assert.deepEqual(
    outcomes.map((outcome) => (outcome.status === 'rejected' ? String(outcome.reason) : outcome.status)),
    [message, ...others.map(() => 'fulfilled')],
  );
  await until(() => receiver.events.length === others.length);
});

test('null and undefined are refused like other events that are none', async (t) => {
  const { shop, topic, receiver } = await scene(t);
  const given = [null, { type: 'update', url: url(1) }, undefined] as NewEvent[];
  const outcomes = await Promise.allSettled(given.map((event) => shop.publish(topic, event)));
  for (const n of [0, 2])
    assert.match(String((outcomes[n] as PromiseRejectedResult).reason), /^BadEventError: /);
  await until(() => receiver.events.length === 1);
});

test('a topic of another is refused for all', async (t) => {
  const { shop, topic } = await scene(t);
  await shop.updated(topic, url(1));
  const { token, secret } = await bus.client('other');
  const other = new Routemaster({ url: bus.url, token, secret });
  const outcomes = await Promise.allSettled(urls(3).map((each) => other.updated(topic, each)));
  for (const outcome of outcomes)
    assert.ok(outcome.status === 'rejected' && outcome.reason instanceof TopicClaimedError);
});

test('publishAll takes any number of events', async (t) => {
  const { shop, topic, receiver } = await scene(t, 10_000);
  const events = async function* () {
    for (const each of urls(9000)) yield { type: 'update', url: each } as const;
  };
  assert.equal(await shop.publishAll(topic, events()), 9000);
  await until(() => receiver.events.length === 9000);
  assert.deepEqual(receiver.urls, urls(9000));
});

test('publishAll stops at the first failure, and says what is stored', async (t) => {
  const { shop, topic, receiver } = await scene(t);
  const events = function* (): Generator<NewEvent> {
    for (const each of urls(100)) yield { type: 'update', url: each };
    yield { type: 'update', url: 'nowhere' };
    for (;;) yield { type: 'update', url: url(101) };
  };
  const error = await shop.publishAll(topic, events()).then(String, (error: unknown) => error);
  assert.ok(error instanceof PublishAllError);
  assert.deepEqual(
    error.failures.map(({ index, error }) => [index, error instanceof BadEventError]),
    [[100, true]],
  );
  assert.match(error.message, /^1 of \d+ events failed, first event 100: url must be/);
  await until(() => receiver.events.length === error.stored);
});

test('publishAll says what has failed, even if the events throw too', async (t) => {
  const { shop, topic } = await scene(t);
  const bug = new Error('the cursor is closed');
  const events = async function* (first: NewEvent): AsyncGenerator<NewEvent> {
    yield first;
    await shop.flush();
    throw bug;
  };
  await assert.rejects(shop.publishAll(topic, events({ type: 'update', url: url(1) })), bug);
  const error = await shop
    .publishAll(topic, events({ type: 'update', url: 'nowhere' }))
    .then(String, (error: unknown) => error);
  assert.ok(error instanceof PublishAllError);
  assert.deepEqual(
    error.failures.map(({ index }) => index),
    [0],
  );
  assert.equal(error.stored, 0);
  assert.equal(error.readError, bug);
});

test('no lost request or reply has an event stored twice, or out of order', async (t) => {
  const { topic, receiver, token, secret } = await scene(t);
  const port = Number(new URL(bus.url).port);
  const proxy = await MeddlingProxy.toWeb(() => port);
  t.after(() => proxy.stop());
  const shop = new Routemaster({ url: proxy.url, token, secret, attemptTimeoutMs: 500 });
  const all: string[] = [];
  for (const at of ['request', 'reply'] as const) {
    for (const end of ['cut', 'mute'] as const) {
      const struck = proxy.strike(piece(at), { end });
      const some = Array.from({ length: 50 }, () => url(all.length + Math.random()));
      all.push(...some);
      await Promise.all([struck, ...some.map((each) => shop.updated(topic, each))]);
    }
  }
  await until(() => receiver.events.length >= all.length);
  assert.deepEqual(receiver.urls, all);
});

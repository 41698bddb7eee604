import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '../../harness/http/client.ts';
import type { Receiver } from '../../harness/http/receiver.ts';
import type { Owner } from '../../harness/processes/running_bus.ts';
import { nameIn } from '../../harness/scripts/crossing.ts';
import { until } from '../../harness/until.ts';
import { joinToken } from '../../src/ids.ts';
import { bus } from './short_lease_bus.ts';

const url = (n: number | string) => `https://shop.example.com/orders/${n}`;

interface Shop {
  shop: Client;
  receiver: Receiver;
  /** The names of its topics, which no other test uses. */
  topic: (name: string) => string;
}

interface Report {
  open: number;
  completed: number;
  expired: number;
  unkeyed: number;
  events: { queued: number };
  dead_letters: { batches: number };
  keys: { key: string; counts: Record<string, number>; events: string[] }[];
}

interface Letter {
  id: string;
  subscriber: string;
  join?: string;
  reason: string;
  event_count: number;
}

interface JoinData {
  key: string;
  events: string[];
}

let tests = 0;

/** Makes a client that publishes and has joins, and a receiver of these topics. */
async function open(t: Owner, ...topics: string[]): Promise<Shop> {
  const prefix = `t${++tests}`;
  const topic = (name: string) => `${prefix}_${name}`;
  const shop = await bus.client('shop');
  const office = await bus.client('office');
  const receiver = await bus.receiver(t);
  const subscription = {
    topics: topics.map(topic),
    callback: receiver.callback,
    uuid: 'me',
    timeout: 0,
    max: 100,
  };
  await office.call('POST', '/subscription', subscription);
  return { shop, receiver, topic };
}

const report = async (shop: Client, name: string) => (await shop.call('GET', `/joins/${name}`)) as Report;
const isCounted = async (shop: Client, name: string) => (await report(shop, name)).events.queued === 0;
const lettersOf = (client: Client, query = '') =>
  client.call('GET', `/dead_letters${query}`) as Promise<Letter[]>;
const keysOf = (receiver: Receiver) => receiver.events.map(({ data }) => (data as JoinData).key);

/** Publishes `paid` and `packed` of each order: both together complete a key. */
async function publishOrders({ shop, topic }: Shop, from: number, to: number): Promise<void> {
  for (const name of ['paid', 'packed']) {
    const events = Array.from({ length: to - from }, (_, n) => ({
      id: `${name}-${from + n}`,
      url: url(from + n),
      data: { order_id: from + n },
    }));
    await shop.publish(topic(name), events);
  }
}

const bothOf = ({ topic }: Shop) => ({
  sources: [{ topic: topic('paid') }, { topic: topic('packed') }],
  by: 'data.order_id',
  then: { topic: topic('ready'), type: 'update' },
});

test('a join publishes when each of its sources has spoken as often as it asks', async (t) => {
  const { shop, receiver, topic } = await open(t, 'ready');
  await shop.call('PUT', '/joins/order', {
    sources: [{ topic: topic('paid') }, { topic: topic('packed'), count: 2 }],
    by: 'data.order_id',
    then: { topic: topic('ready'), type: 'update' },
  });
  await shop.publish(topic('paid'), { id: 'p1', url: url('p1'), data: { order_id: 17 } });
  await shop.publish(topic('packed'), { id: 'k1', url: url('k1'), data: { order_id: '17' } });
  await until(async () => (await report(shop, 'order')).keys[0]?.events.length === 2);
  const [key] = (await report(shop, 'order')).keys;
  assert.deepEqual([key?.key, key?.counts], ['17', { [topic('paid')]: 1, [topic('packed')]: 1 }]);
  await shop.publish(topic('packed'), { id: 'k2', url: url('k2'), data: { order_id: 17 } });
  const [event, ...more] = (await receiver.delivery(1)).events;
  assert.deepEqual(more, []);
  assert.deepEqual(
    { topic: event?.topic, type: event?.type, url: event?.url, data: event?.data },
    {
      ...{ topic: topic('ready'), type: 'update', url: url('k2') },
      data: { join: 'order', key: '17', events: ['p1', 'k1', 'k2'] },
    },
  );
  const { open: left, completed, unkeyed } = await report(shop, 'order');
  assert.deepEqual([left, completed, unkeyed], [0, 1, 0]);
});

test('a join that is made while earlier events are under way between partitions counts the next ones', async (t) => {
  const { shop, topic } = await open(t);
  const { index } = bus.partitions.ofSubscriber(joinToken('after', shop.token));
  const source = nameIn(bus.partitions, (index + 1) % bus.partitions.all.length, topic('source'));
  const publishOrder = (n: number) => shop.publish(source, { url: url(n) });
  const put = (name: string) =>
    shop.call('PUT', `/joins/${name}`, {
      ...{ sources: [{ topic: source }], by: 'url', then: { topic: topic(name) } },
    });
  // Because of this join, the events of its source are passed on to the partition of both joins.
  await put('before');
  await bus.process('worker').stop();
  await publishOrder(1);
  await put('after');
  await publishOrder(2);
  await bus.start('worker');
  await until(async () => (await report(shop, 'before')).completed === 2);
  await until(async () => (await report(shop, 'after')).completed > 0, { what: 'order 2 is complete' });
});

test('a key that is not complete in time expires, and the join says so', async (t) => {
  const { shop, receiver, topic } = await open(t, 'stuck', 'whole');
  await shop.call('PUT', '/joins/late', {
    sources: [{ topic: topic('one') }, { topic: topic('two') }],
    by: 'url',
    then: { topic: topic('whole') },
    within: 200,
    on_expiry: { topic: topic('stuck') },
  });
  const atMs = performance.now();
  await shop.publish(topic('one'), { id: 'e1', url: url(1) });
  const [event] = (await receiver.delivery(1)).events;
  assert.ok(performance.now() - atMs >= 195);
  const counts = { [topic('one')]: 1, [topic('two')]: 0 };
  assert.deepEqual(event?.data, { join: 'late', key: url(1), events: ['e1'], counts });
  await shop.publish(topic('two'), { url: url(1) });
  assert.equal((await receiver.delivery(2)).events[0]?.topic, topic('stuck'));
});

test('a join counts what another publishes', async (t) => {
  const shop = await open(t, 'third');
  await shop.shop.call('PUT', '/joins/first', bothOf(shop));
  await shop.shop.call('PUT', '/joins/second', {
    sources: [{ topic: shop.topic('ready'), count: 3 }],
    by: 'data.join',
    then: { topic: shop.topic('third') },
  });
  await publishOrders(shop, 0, 3);
  await shop.receiver.delivery(1);
  assert.deepEqual(keysOf(shop.receiver), ['first']);
});

test('each key is published once, although workers are killed again and again', async (t) => {
  const shop = await open(t, 'ready');
  await shop.shop.call('PUT', '/joins/order', bothOf(shop));
  const orders = 1000;
  let published = 0;
  const publishing = (async () => {
    for (; published < orders; published += 50) await publishOrders(shop, published, published + 50);
  })();
  for (let kill = 0; kill < 2; kill++) {
    const seen = Math.min(published + 100, orders);
    await until(() => published >= seen);
    await bus.process('worker').kill();
    await bus.start('worker');
  }
  await publishing;
  const { shop: client, receiver } = shop;
  await until(async () => new Set(keysOf(receiver)).size === orders);
  await until(() => isCounted(client, 'order'));
  // A delivery that was under way when its worker died may arrive twice, with the same events.
  const once = new Map(receiver.events.map(({ id, data }) => [id, (data as JoinData).key]));
  assert.equal(once.size, orders);
  const { open: left, completed } = await report(client, 'order');
  assert.deepEqual([left, completed], [0, orders]);
});

test('keys expire while no worker runs only if nothing came for them', async (t) => {
  const shop = await open(t, 'ready', 'stuck');
  const { shop: client, topic, receiver } = shop;
  await client.call('PUT', '/joins/order', {
    ...bothOf(shop),
    within: 3000,
    on_expiry: { topic: topic('stuck') },
  });
  await client.publish(topic('paid'), [
    { url: url(1), data: { order_id: 1 } },
    { url: url(2), data: { order_id: 2 } },
  ]);
  await until(() => isCounted(client, 'order'));
  await bus.process('worker').stop();
  await client.publish(topic('packed'), { url: url(1), data: { order_id: 1 } });
  const { redis } = bus.store;
  const nowMs = async () => Number((await redis.time())[0]) * 1000;
  const untilMs = (await nowMs()) + 4000;
  await until(async () => (await nowMs()) >= untilMs);
  await bus.start('worker');
  await until(() => receiver.events.length === 2);
  assert.deepEqual(
    receiver.events.map(({ topic: each, data }) => [each, (data as JoinData).key]).sort(),
    [
      [topic('ready'), '1'],
      [topic('stuck'), '2'],
    ].sort(),
  );
});

test('what a join may not publish becomes its dead letters, which its client retries', async (t) => {
  bus.announceError(/a join may not publish/);
  const shop = await open(t, 'ready');
  const { shop: client, topic, receiver } = shop;
  await client.call('PUT', '/joins/order', bothOf(shop));
  await publishOrders(shop, 0, 1);
  await receiver.delivery(1);
  const thief = await bus.client('thief');
  await bus.root.call('DELETE', `/topics/${topic('ready')}`);
  await thief.publish(topic('ready'), { url: url('stolen') });
  await publishOrders(shop, 1, 2);
  const letters = await until(async () => {
    const found = await lettersOf(client);
    return found.reduce((sum, each) => sum + each.event_count, 0) === 2 ? found : undefined;
  });
  for (const { subscriber, join, reason } of letters)
    assert.deepEqual([subscriber, join, reason], [client.token, 'order', 'join_refused']);
  const first = `/dead_letters/${letters[0]?.id}`;
  const { history } = (await client.call('GET', first)) as { history: { reason: string }[] };
  assert.equal(history[0]?.reason, `another client publishes to ${topic('ready')} now`);
  assert.deepEqual(await lettersOf(thief), []);
  await assert.rejects(thief.call('GET', first), /404/);
  await assert.rejects(thief.call('POST', `${first}/retry`), /404/);
  await assert.rejects(thief.call('DELETE', first), /404/);
  assert.equal((await lettersOf(bus.root, `?subscriber=${client.token}&join=order`)).length, letters.length);
  assert.deepEqual(await lettersOf(client, '?join=other'), []);

  await thief.call('DELETE', `/topics/${topic('ready')}`);
  await client.call('POST', `${first}/retry`);
  if (letters.length > 1) await client.call('POST', '/dead_letters/retry');
  await until(async () => (await report(client, 'order')).completed === 2);
  assert.equal((await report(client, 'order')).dead_letters.batches, 0);
});

test('joins end with their client, and with scopes that do not permit them', async (t) => {
  const shop = await open(t, 'ready');
  const { shop: client, topic } = shop;
  await client.call('PUT', '/joins/order', bothOf(shop));
  await publishOrders(shop, 0, 1);
  await client.publish(topic('paid'), { url: url(1), data: { order_id: 1 } });
  await until(() => isCounted(client, 'order'));
  await bus.root.call('DELETE', `/api_tokens/${client.token}`);
  await assert.rejects(bus.root.call('GET', `/joins/order?client=${client.token}`), /join_not_found/);

  const token = 'a-client-that-is-limited-later';
  const limited = { name: 'limited', token };
  await bus.root.call('POST', '/api_tokens', limited);
  const other = { ...shop, shop: bus.clientOf(token, 'x') };
  await bus.root.call('DELETE', `/topics/${topic('ready')}`);
  await other.shop.call('PUT', '/joins/order', bothOf(shop));
  await bus.root.call('POST', '/api_tokens', { ...limited, subscribe: [topic('paid')] });
  await assert.rejects(other.shop.call('GET', '/joins/order'), /join_not_found/);
  const { redis, keys } = bus.store;
  assert.ok(!(await redis.smembers(keys.joins())).some((each) => each.includes(token)));
});

test('open keys come a page at a time, the oldest first', async (t) => {
  const { shop: client, topic } = await open(t, 'ready');
  await client.call('PUT', '/joins/order', {
    sources: [{ topic: topic('paid'), count: 2 }],
    by: 'data.id',
    then: { topic: topic('ready') },
  });
  const events = Array.from({ length: 25 }, (_, n) => ({ url: url(n), data: { id: `k${n}` } }));
  await client.publish(topic('paid'), events);
  await until(async () => (await report(client, 'order')).open === 25);
  const shown: string[] = [];
  let path: string | undefined = '/joins/order?limit=10';
  while (path !== undefined) {
    const headers = { authorization: `Basic ${btoa(`${client.token}:${client.secret}`)}` };
    const response: Response = await fetch(`${bus.url}${path}`, { headers });
    const { keys } = (await response.json()) as Report;
    shown.push(...keys.map(({ key }) => key));
    path = /<([^>]*)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
  }
  assert.deepEqual(shown.toSorted(), events.map(({ data }) => data.id).toSorted());
  assert.equal(new Set(shown).size, 25);
});

test('the figures show joins by their names', async (t) => {
  const shop = await open(t, 'ready');
  const { shop: client, topic, receiver } = shop;
  await client.call('PUT', '/joins/order', { ...bothOf(shop), within: 60_000 });
  await publishOrders(shop, 0, 3);
  await client.publish(topic('paid'), [{ url: url(7), data: { order_id: 7 } }, { url: url(8) }]);
  await until(() => receiver.events.length === 3);
  const subscriber = `join:order:${client.token}`;
  const figure = (name: string) => bus.metric(`routemaster_${name}`, { subscriber });
  await until(async () => (await figure('joins_completed_total')) === 3);
  await until(async () => (await figure('joins_unkeyed_total')) === 1);
  assert.equal(await figure('joins_open'), 1);
  await until(async () => (await figure('events_removed_total')) === 8);
  assert.equal(await figure('events_added_total'), 8);
  assert.equal(await figure('subscriber_queue_events'), 0);
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { until } from '../../../harness/until.ts';
import {
  BadClientError,
  BadSubscriptionError,
  type CallName,
  DeliveryNotFoundError,
  ForbiddenError,
  JoinNotFoundError,
  ProblemError,
  Routemaster,
  TopicNotFoundError,
  TriggerNotFoundError,
  UnauthenticatedError,
} from '../../../packages/client/src/index.ts';
import { bus } from '../default_bus.ts';
import { problem, ScriptedWeb, say } from './scripted_web.ts';

async function drain<T>(entries: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const entry of entries) all.push(entry);
  return all;
}

/** Makes each call by its method, or by `call` where it has none, such as a second name of a call. */
const METHODS: Partial<Record<CallName, (bus: Routemaster) => Promise<unknown>>> = {
  'POST /topics/:name': (bus) => bus.publish('NAME', { type: 'noop', url: 'https://shop.example.com' }),
  'DELETE /topic/:name': (bus) => bus.call('DELETE /topic/:name', { params: { name: 'NAME' } }),
  'POST /subscriber': (bus) =>
    bus.call('POST /subscriber', { body: { topics: [], callback: 'https://shop.example.com' } }),
  'GET /subscribers': (bus) => bus.call('GET /subscribers', { query: { limit: 5 } }),
  'GET /health/ping.json': (bus) => bus.call('GET /health/ping.json', {}),
  'GET /topics': (bus) => drain(bus.topics()),
  'GET /topics/:name/delayed': (bus) => drain(bus.delayedEvents('NAME')),
  'DELETE /topics/:name/delayed/:id': (bus) => bus.removeDelayedEvent('NAME', 'ID'),
  'GET /topics/:name': (bus) => bus.topic('NAME'),
  'PUT /topics/:name/publisher': (bus) => bus.giveTopic('NAME', 'TOKEN'),
  'DELETE /topics/:name': (bus) => bus.removeTopic('NAME'),
  'POST /subscription': (bus) => bus.subscribe({ topics: [], callback: 'https://shop.example.com' }),
  'GET /subscriptions': (bus) => drain(bus.subscriptions()),
  'DELETE /subscriber/topics/:name': (bus) => bus.unsubscribe('NAME'),
  'DELETE /subscriber': (bus) => bus.leave(),
  'POST /subscriber/pause': (bus) => bus.pause(),
  'POST /subscriber/resume': (bus) => bus.resume(),
  'POST /subscriber/test': (bus) => bus.test(),
  'POST /subscribers/:token/test': (bus) => bus.testSubscriber('TOKEN'),
  'GET /subscribers/:token': (bus) => bus.subscriber('TOKEN'),
  'POST /subscribers/:token/pause': (bus) => bus.pauseSubscriber('TOKEN'),
  'POST /subscribers/:token/resume': (bus) => bus.resumeSubscriber('TOKEN'),
  'DELETE /subscribers/:token': (bus) => bus.removeSubscriber('TOKEN'),
  'PUT /joins/:name': (bus) =>
    bus.putJoin('NAME', { sources: [{ topic: 'a' }], by: 'url', then: { topic: 'b' } }),
  'GET /joins': (bus) => drain(bus.joins()),
  'GET /joins/:name': (bus) => bus.join('NAME', { client: 'TOKEN' }),
  'DELETE /joins/:name': (bus) => bus.removeJoin('NAME'),
  'GET /triggers': (bus) => drain(bus.triggers()),
  'GET /triggers/:name': (bus) => bus.trigger('NAME', { preview: 5 }),
  'PUT /triggers/:name': (bus) =>
    bus.putTrigger('NAME', {
      topic: 't',
      event: { type: 'noop', url: 'https://a.b' },
      schedule: { every: 1000 },
    }),
  'DELETE /triggers/:name': (bus) => bus.removeTrigger('NAME'),
  'POST /triggers/:name/fire': (bus) => bus.fireTrigger('NAME'),
  'GET /deliveries': (bus) => drain(bus.deliveries({ state: 'taken' })),
  'GET /deliveries/:id': (bus) => bus.delivery('ID'),
  'POST /deliveries/:id/retry': (bus) => bus.retryDelivery('ID'),
  'POST /deliveries/:id/bury': (bus) => bus.buryDelivery('ID'),
  'GET /dead_letters': (bus) => drain(bus.deadLetters()),
  'GET /dead_letters/:id': (bus) => bus.deadLetter('ID'),
  'POST /dead_letters/:id/retry': (bus) => bus.retryDeadLetter('ID'),
  'DELETE /dead_letters/:id': (bus) => bus.purgeDeadLetter('ID'),
  'POST /dead_letters/retry': (bus) => bus.retryDeadLetters(),
  'DELETE /dead_letters': (bus) => bus.purgeDeadLetters(),
  'GET /api_tokens': (bus) => drain(bus.clients()),
  'POST /api_tokens': (bus) => bus.createClient({ name: 'shop' }),
  'POST /api_tokens/:token/secret': (bus) => bus.rotateSecret('TOKEN'),
  'PUT /api_tokens/:token': (bus) => bus.limitClient('TOKEN', { publish: ['a'] }),
  'DELETE /api_tokens/:token': (bus) => bus.removeClient('TOKEN'),
  'GET /audit': (bus) => drain(bus.audit({ since: 1 })),
  'GET /jobs': (bus) => drain(bus.jobs({ queue: 'main' })),
  'POST /jobs/:id/run': (bus) => bus.runJob('ID'),
  'GET /tail': (bus) => bus.tail({ topic: 'orders' }),
  'GET /history': (bus) => bus.history({ subject: 'topic:orders', range: '24h' }),
  'GET /health': (bus) => bus.health(),
  'GET /health/ping': (bus) => bus.ping(),
  'GET /pulse': (bus) => bus.pulse(),
  'GET /pulse/scaling': (bus) => bus.scaling(),
  'GET /metrics': (bus) => bus.metrics(),
  'GET /openapi.json': (bus) => bus.openApi(),
  'GET /docs': (bus) => bus.call('GET /docs', {}),
};

describe('each call of the HTTP API has a method', () => {
  for (const [call, method] of Object.entries(METHODS)) {
    test(call, async () => {
      const web = await ScriptedWeb.start();
      await method(web.client());
      const path = call.replaceAll(/:\w+/g, (name) => name.slice(1).toUpperCase());
      assert.deepEqual(
        web.requests.map((each) => `${each.method} ${each.path.replace(/[?].*/, '')}`),
        [path],
      );
    });
  }
});

test('a name that would make the path that of another call is not sent', async () => {
  const web = await ScriptedWeb.start();
  const client = web.client();
  // The path would become /dead_letters/retry, which retries all.
  await assert.rejects(client.retryDeadLetter('.'), new TypeError('id must not be .'));
  await assert.rejects(client.removeTopic('..'), new TypeError('name must not be ..'));
  // A router in front of the bus may take off the last slash of /dead_letters/, which purges all then.
  for (const id of ['', undefined as unknown as string])
    await assert.rejects(client.purgeDeadLetter(id), new TypeError('id must not be empty'));
  const event = { type: 'update', url: 'https://shop.example.com/orders/1' } as const;
  await assert.rejects(client.updated('..', event.url), new TypeError('name must not be ..'));
  const message = "the first argument must be the name of a topic, such as 'orders'";
  // JavaScript has no compiler that misses the topic in `publish(event)`.
  for (const topic of ['', undefined, event] as string[]) {
    await assert.rejects(client.publish(topic, event), new TypeError(message));
    await assert.rejects(client.publishAll(topic, [event]), new TypeError(message));
  }
  const noName = { name: 'orders' } as unknown as string;
  await assert.rejects(client.removeTopic(noName), new TypeError('name must be a text'));
  assert.deepEqual(web.requests, []);
});

const as = ({ token, secret }: { token: string; secret?: string | undefined }, digest = false) =>
  new Routemaster({ url: bus.url, token, ...(secret && { secret }), digest });
const rootClient = () => new Routemaster({ url: bus.url, token: ROOT_KEY });
const first = async <T>(entries: AsyncIterable<T>): Promise<T | undefined> => {
  for await (const entry of entries) return entry;
  return undefined;
};

test('root makes, changes and removes clients', async () => {
  const boss = rootClient();
  const made = await boss.createClient({ name: 'shop', publish: ['orders_*'] });
  assert.deepEqual(made.publish, ['orders_*']);
  const shop = as(made);
  await shop.created('orders_of_shop', 'https://shop.example.com/1');
  await assert.rejects(shop.created('parcels', 'https://shop.example.com/1'), ForbiddenError);
  const { secret } = await boss.rotateSecret(made.token, { grace: 0 });
  await until(() =>
    shop.pulse().then(
      () => false,
      () => true,
    ),
  );
  await assert.rejects(shop.pulse(), UnauthenticatedError);
  await as({ token: made.token, secret }).pulse();
  const known = (await drain(boss.clients())).find((each) => each.token === made.token);
  const again = () => boss.rotateSecret(made.token, { secret_at: known?.secret_at ?? 0 });
  assert.equal((await again()).grace, 86_400_000);
  await assert.rejects(again(), BadClientError);
  await boss.removeClient(made.token);
  assert.ok(!(await drain(boss.clients())).some((each) => each.token === made.token));
});

test('a client subscribes, looks and leaves', async (t) => {
  const [shop, search] = [as(await bus.client('shop')), as(await bus.client('search'))];
  const { callback } = await bus.receiver(t);
  const key = await search.subscribe({ topics: ['looked', 'other'], callback, signing_secret: true });
  assert.match(key?.signing_secret ?? '', /^whsec_/);
  assert.equal(await search.subscribe({ topics: ['looked', 'other'], callback, max: 3 }), undefined);
  await shop.updated('looked', 'https://shop.example.com/1');
  await search.unsubscribe('other');
  await search.pause();
  assert.equal((await first(search.subscriptions()))?.paused_by, 'subscriber');
  await search.resume();
  const report = await first(search.subscriptions());
  assert.deepEqual([report?.topics, report?.max_events, report?.signing], [['looked'], 3, 'v1']);
  const looked = await first(shop.topics());
  assert.deepEqual([looked?.name, looked?.events], ['looked', 1]);
  await search.leave();
  assert.deepEqual(await drain(search.subscriptions()), []);
  await shop.removeTopic('looked');
  await assert.rejects(shop.removeTopic('looked'), TopicNotFoundError);
  await rootClient()
    .removeSubscriber('nobody')
    .then(assert.fail, (error) => {
      assert.deepEqual([error.code, error.status], ['subscriber_not_found', 404]);
    });
});

test('a client makes, changes, sees and removes joins', async () => {
  const made = await bus.client('shop');
  const shop = as(made);
  const sources = [{ topic: 'joined_a' }, { topic: 'joined_b', count: 2 }];
  const join = await shop.putJoin('order', {
    sources,
    by: 'data.order',
    then: { topic: 'joined', type: 'update' },
  });
  assert.deepEqual([join.name, join.sources[0]?.count, join.within], ['order', 1, 86_400_000]);
  await shop.updated('joined_a', 'https://shop.example.com/1', { data: { order: 1 } });
  await until(async () => (await shop.join('order')).keys.length === 1);
  assert.equal((await rootClient().join('order', { client: made.token, limit: 1 })).open, 1);
  assert.equal((await first(shop.joins()))?.name, 'order');
  await shop.removeJoin('order');
  assert.deepEqual(await drain(shop.joins()), []);
  await assert.rejects(shop.removeJoin('order'), JoinNotFoundError);
});

test('triggers are put, listed, fired and removed', async () => {
  const shop = as(await bus.client('shop'));
  const event = { type: 'noop', url: 'https://shop.example.com/daily', data: { n: 1 } } as const;
  const schedule = { cron: '0 9 * * MON-FRI', timezone: 'Europe/London' };
  const made = await shop.putTrigger('daily', { topic: 'reports', event, schedule });
  assert.deepEqual([made.name, made.event, made.schedule, made.paused], ['daily', event, schedule, false]);
  assert.equal((await first(shop.triggers()))?.name, 'daily');
  const { preview, next_at } = await shop.trigger('daily', { preview: 3 });
  assert.deepEqual([preview?.length, preview?.[0]], [3, next_at]);
  assert.match((await shop.fireTrigger('daily')).id, /^[\w-]{16}$/);
  await shop.removeTrigger('daily');
  await assert.rejects(shop.removeTrigger('daily'), TriggerNotFoundError);
});

test('listings come a page at a time', async (t) => {
  const search = as(await bus.client('search'));
  const { callback } = await bus.receiver(t);
  const topics = Array.from({ length: 25 }, (_, n) => `listed_${n}`);
  await search.subscribe({ topics, callback });
  const names = new Set<string>();
  for await (const { name } of search.topics({ limit: 10 })) names.add(name);
  assert.ok(topics.every((name) => names.has(name)));
});

test('a client sees what became of its batches', async (t) => {
  const made = await bus.client('search');
  const [shop, search] = [as(await bus.client('shop')), as(made)];
  const { callback } = await bus.receiver(t);
  await search.subscribe({ topics: ['followed'], callback, timeout: 0, max: 1 });
  await shop.updated('followed', 'https://shop.example.com/1');
  await until(async () => (await first(search.deliveries({ state: 'taken' }))) !== undefined);
  const taken = await first(search.deliveries({ limit: 1 }));
  assert.deepEqual(
    [taken?.state, taken?.attempts[0]?.status, taken?.topics],
    ['taken', 204, { followed: 1 }],
  );
  assert.deepEqual(await search.delivery(taken?.id ?? ''), taken);
  assert.equal((await first(rootClient().deliveries({ subscriber: made.token })))?.id, taken?.id);
  await assert.rejects(shop.delivery(taken?.id ?? ''), DeliveryNotFoundError);
  await search.pause();
  await shop.updated('followed', 'https://shop.example.com/2', { data: { n: 2 } });
  const paused = await first(search.deliveries({ state: 'paused' }));
  assert.deepEqual((await search.delivery(paused?.id ?? '')).events?.[0]?.data, { n: 2 });
});

test('dead letters are listed, read, retried and purged', async (t) => {
  const made = await bus.client('search');
  const [shop, search] = [as(await bus.client('shop')), as(made)];
  const receiver = await bus.receiver(t);
  receiver.usual = (response) => void response.writeHead(500).end();
  bus.announceError(/^gave up on a batch/);
  const { callback } = receiver;
  await search.subscribe({ topics: ['dying'], callback, timeout: 0, max: 1, max_attempts: 1 });
  const urls = Array.from({ length: 5 }, (_, n) => `https://shop.example.com/dying/${n}`);
  await Promise.all(urls.map((url) => shop.updated('dying', url, { data: { n: 1 } })));
  await until(async () => (await drain(search.deadLetters({ limit: 2 }))).length === 5);
  const letter = await first(search.deadLetters());
  assert.ok(letter);
  const whole = await search.deadLetter(letter.id);
  assert.deepEqual([whole.event_count, whole.events.length, whole.events[0]?.data], [1, 1, { n: 1 }]);
  await search.purgeDeadLetter(letter.id);
  receiver.usual = (response) => void response.writeHead(204).end();
  const next = await first(search.deadLetters());
  await search.retryDeadLetter(next?.id ?? '');
  assert.deepEqual(await rootClient().retryDeadLetters({ subscriber: made.token }), { retried: 3 });
  await until(() => receiver.events.length === 4);
  assert.deepEqual(await search.purgeDeadLetters(), { purged: 0 });
});

test('errors have the class, code, status and members of the problem', async () => {
  const shop = as(await bus.client('shop'));
  await assert.rejects(
    shop.subscribe({ topics: ['a'], callback: 'https://shop.example.com', max: 0 }),
    (error) => {
      assert.ok(error instanceof BadSubscriptionError);
      assert.deepEqual(
        [error.name, error.code, error.status],
        ['BadSubscriptionError', 'bad_subscription', 400],
      );
      assert.deepEqual(error.members, { field: 'max' });
      assert.equal(error.message, error.detail);
      return true;
    },
  );
  const web = await ScriptedWeb.start();
  web.answers(problem(418, 'new_code', { field: 'x' }), say(400, {}, '<html>'));
  for (const code of ['new_code', 'http_400'])
    await assert.rejects(
      web.client().pulse(),
      (error) => error instanceof ProblemError && error.code === code,
    );
});

test('Digest authenticates with any number of requests, and goes on when its challenge is forgotten', async () => {
  const made = await bus.client('shop');
  const shop = as(made, true);
  const others = ['one', 'two', 'three'];
  await Promise.all(others.map((topic) => shop.updated(`digest_${topic}`, 'https://shop.example.com/1')));
  await Promise.all(Array.from({ length: 20 }, () => shop.pulse()));
  const { redis, keys } = bus.store;
  await redis.del(keys.digest_keys(), keys.digest_run());
  await shop.updated('digest_one', 'https://shop.example.com/2');
  await until(async () => (await first(shop.topics()))?.events === 2);
  await assert.rejects(as({ ...made, secret: 'wrong' }, true).pulse(), UnauthenticatedError);
  await new Routemaster({ url: bus.url, token: 'root', secret: ROOT_KEY, digest: true }).metrics();
});

test('health, and any call by its name', async () => {
  const boss = rootClient();
  assert.deepEqual(await boss.health(), {});
  assert.ok(Date.parse((await boss.ping()).pong) > 0);
  assert.match(await boss.metrics(), /^# HELP/);
  await Promise.all([boss.pulse(), boss.scaling()]);
  assert.deepEqual(await boss.call('GET /health', {}), {});
  assert.ok(Array.isArray(await boss.call('GET /topics', { query: { limit: 5 } })));
});

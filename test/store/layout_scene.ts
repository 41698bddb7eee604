import { answer } from '../../harness/http/receiver.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import type { Owner, RunningBus } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import { answerParameters, challengeFor, header } from '../authentication/digest_client.ts';
import { Cast, event } from './layout_cast.ts';

/** The settings of a bus that the scene runs on. */
export const SCENE_SETTINGS = {
  env: {
    ROUTEMASTER_PARTITIONS: '1',
    // These limits are low. The scene uses so much of them that the keys `rate:` and `idempotency:quota:` stay until it
    // ends.
    ROUTEMASTER_PUBLISH_RATE: '1',
    ROUTEMASTER_PUBLISH_BYTES: '2000',
    ROUTEMASTER_PUBLISH_BURST: '3600',
    ROUTEMASTER_MAX_IDEMPOTENCY_KEYS: '5',
    ROUTEMASTER_SWEEP_INTERVAL: '300',
    MAX_BACKOFF_MS: '60000',
  },
};

const HOUR_MS = 3_600_000;
const TAKES = answer.status(204);

/**
 * Brings a bus with a web process into many states by its API, one after the other, and starts a worker process. Calls
 * `look` in each state that stays as it is: with queued batches before the worker starts; with deliveries in flight,
 * failures, dead letters, open keys of joins and paused subscribers; with a drop notice that a delivery in flight
 * tells; and when all deliveries have ended.
 */
export async function playScene(t: Owner, bus: RunningBus, look: () => Promise<void>): Promise<void> {
  const cast = await Cast.of(t, bus);
  await authenticate(cast);
  await subscribe(cast);
  await addJoinsAndTriggers(cast);
  await publish(cast);
  await look();
  await bus.start('worker');
  await deliver(cast);
  await look();
  await dropAndTell(cast);
  await look();
  cast.release();
  for (const name of ['held', 'paused'])
    await until(async () => (await bus.store.redis.hexists('batches:gauges:batch', name)) === 0);
  await look();
}

/** Has clients with and without a secret call by Basic, by Digest, and with a session of the console. */
async function authenticate({ bus, shop }: Cast): Promise<void> {
  const office = await bus.client('office');
  await bus.root.call('POST', `/api_tokens/${office.token}/secret`);
  const scopes = { publish: ['limited_*'], subscribe: ['open', 'paid'] };
  await bus.root.call('POST', '/api_tokens', { name: 'limited', token: 'limited', ...scopes });
  const uri = '/topics';
  const refused = await fetch(bus.url + uri, { headers: { authorization: `Basic ${btoa('nobody:x')}` } });
  const challenges = (refused.headers.get('www-authenticate') ?? '').split(/, (?=Digest|Basic)/);
  const challenge = challengeFor('SHA-256', challenges);
  const parameters = answerParameters(challenge, { user: shop.token, secret: shop.secret, uri });
  await fetch(bus.url + uri, { headers: { authorization: header(parameters) } });
  for (const fields of [
    { user: 'root', password: ROOT_KEY },
    { user: shop.token, password: shop.secret },
  ]) {
    const headers = { 'sec-fetch-site': 'same-origin' };
    const body = new URLSearchParams(fields);
    await fetch(`${bus.url}/console/login`, { method: 'POST', body, redirect: 'manual', headers });
  }
}

async function subscribe(cast: Cast): Promise<void> {
  await cast.subscriber('defaults', TAKES);
  await cast.subscriber('open', TAKES, { timeout: HOUR_MS, max: 50, max_bytes: 4096, uuid: 'me' });
  await cast.subscriber('ordered', TAKES, { ordered: true, max: 2, max_attempts: 7, max_age: HOUR_MS });
  await cast.subscriber('signed', TAKES, { signing_secret: true });
  await cast.subscriber('curved', TAKES, { signing_secret: 'ed25519' });
  await cast.subscriber('failing', answer.status(500, { 'retry-after': '3600' }), { max: 1 });
  await cast.subscriber('dead', answer.text(503, 'closed'), { max: 1, max_attempts: 1 });
  await cast.subscriber('gone', answer.status(410), { max: 1 });
  await cast.subscriber('held', TAKES, { max: 1, max_in_flight: 1 });
  await cast.subscriber('paused', TAKES, { max: 1, max_in_flight: 1 });
  await cast.bus.root.call('POST', '/subscribers/paused/pause');
  await cast.subscriber('resting', TAKES, { max: 1 });
  await cast.client('resting').call('POST', '/subscriber/pause');
  await cast.subscriber('leaving', TAKES, { topics: ['open'], timeout: HOUR_MS });
}

async function addJoinsAndTriggers({ shop }: Cast): Promise<void> {
  const order = { sources: [{ topic: 'paid' }, { topic: 'packed', count: 2 }], by: 'data.order' };
  await shop.call('PUT', '/joins/order', { ...order, then: { topic: 'ready' }, within: HOUR_MS });
  const short = {
    sources: [{ topic: 'asked' }, { topic: 'answered' }],
    by: 'url',
    then: { topic: 'settled' },
  };
  await shop.call('PUT', '/joins/short', { ...short, within: 100, on_expiry: { topic: 'late' } });

  const tick = { type: 'noop', url: 'https://shop.example.com/tick', data: { a: 1 } };
  const ticks = { topic: 'ticks', event: tick };
  await shop.call('PUT', '/triggers/hourly', { ...ticks, schedule: { every: HOUR_MS } });
  await shop.call('POST', '/triggers/hourly/fire');
  const end = Date.now() + 1500;
  await shop.call('PUT', '/triggers/often', { ...ticks, schedule: { every: 1000 }, end });
  const schedule = { cron: '0 9 * * MON', timezone: 'Europe/London' };
  await shop.call('PUT', '/triggers/weekly', { ...ticks, schedule, catch_up: 'all', paused: true });
}

/** Publishes events, most of which wait for the worker. */
async function publish(cast: Cast): Promise<void> {
  const { bus, shop } = cast;
  await bus.root.call('GET', '/tail?topic=open');
  await shop.publish('open', [event('open'), event('data', { data: { a: [1, 'ü', null] } })], 'key');
  await shop.publish('open', event('later', { delay: HOUR_MS }));
  await cast.client('leaving').call('DELETE', '/subscriber');
  await cast.publish('removed', 'removed');
  await shop.call('DELETE', '/topics/removed');
  for (const topic of ['defaults', 'signed', 'curved']) await cast.publish(topic, topic);
  for (const topic of ['failing', 'gone', 'held', 'paused', 'resting'])
    await cast.publish(topic, 'first', 'second');
  await cast.publish('ordered', 'a', 'b', 'c');
  await cast.publish('dead', 'retried', 'purged', 'kept');
  cast.hold('held');
  await until(async () => (await bus.store.redis.exists('tail:of:open', 'counters')) === 2);
}

/** Waits until the worker has done what it can, while `held` leaves a delivery unanswered. */
async function deliver(cast: Cast): Promise<void> {
  const { redis } = cast.bus.store;
  await cast.receiver('held').delivery(1);
  await until(async () => (await redis.hget('dead_letters:gauges:event', 'dead')) === '3');
  const letters = (await cast.client('dead').call('GET', '/dead_letters')) as { id: string }[];
  cast.receiver('dead').usual = TAKES;
  await cast.client('dead').call('POST', `/dead_letters/${letters[0]?.id}/retry`);
  await cast.client('dead').call('DELETE', `/dead_letters/${letters[1]?.id}`);
  for (const [topic, id, order] of [
    ['paid', 'p', 'A'],
    ['packed', 'q', 'A'],
    ['packed', 'r', 'A'],
    ['paid', 's', 'B'],
    ['packed', 't', 'C'],
  ] as const) {
    await cast.shop.publish(topic, event(id, { data: { order } }));
    // One after the other, so that no batch of the join has two of them.
    const queued = () => redis.hkeys('batches:gauges:event');
    await until(async () => (await queued()).every((token) => !token.startsWith('join')));
  }
  await cast.publish('asked', 'asked');
  for (const topic of ['ready', 'late'])
    await until(() => redis.hexists(`topic:${topic}`, 'counter'), { what: `an event in ${topic}` });
  for (const name of ['defaults', 'signed', 'curved', 'dead'])
    await until(() => redis.exists(`deliveries:taken:${name}`), { what: `${name} took a batch` });
  // A UID and a record for each of its two batches.
  await until(async () => (await redis.llen('deliveries:taken:ordered')) === 4);
  await until(() => redis.hexists('subscriber:gone', 'paused_at'));
  await until(() => redis.hexists('subscriber:failing', 'throttled_until'));
  await until(() => redis.exists('history:fine:bus'));
}

/**
 * Fills Redis until batches of the paused subscriber are dropped. Then it is resumed, and gets a delivery that tells of
 * that.
 */
async function dropAndTell(cast: Cast): Promise<void> {
  const { redis } = cast.bus.store;
  const big = Array.from({ length: 10 }, () => event('big', { data: 'x'.repeat(60_000) }));
  for (let i = 0; i < 5; i++) await cast.shop.publish('paused', big);
  const used = Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
  await redis.config('SET', 'maxmemory', Math.floor(used * 0.95));
  const isDropped = async () => {
    // The publish that is refused puts the job that drops.
    await cast.publish('resting', 'first').catch(() => {});
    return redis.exists('gap:paused');
  };
  await until(isDropped, { everyMs: 200, what: 'batches are dropped' });
  await redis.config('SET', 'maxmemory', 0);
  cast.hold('paused');
  await cast.bus.root.call('POST', '/subscribers/paused/resume');
  await until(() => redis.exists('gap:telling:paused'));
}

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Api, basic, problemIn, send } from '../../../harness/http/api.ts';
import { stored } from '../../../harness/http/refusal.ts';
import { scriptCalls } from '../../../harness/redis/script_calls.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { until } from '../../../harness/until.ts';
import { RateLimit, spend } from '../../../src/publishing/rate_limit.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const events = (count: number) => `[${Array(count).fill(EVENT).join()}]`;

describe('the buckets of a client', () => {
  const redis = new TestStore();
  const rates = { publishRate: 100, publishBytes: 1000, publishBurstMs: 10_000 };
  const demand = (events: number, bytes = 0, client = 'shop') => ({
    client,
    events,
    bytes,
    isAdmitted: false,
  });
  const ask = async (...demands: ReturnType<typeof demand>[]) =>
    (await spend(redis.store, rates, demands)).map(({ letIn }) => letIn);

  test('admit what they hold, and a last publish of any size; the next is refused', async () => {
    await redis.flush();
    assert.deepEqual(await ask(demand(999), demand(5000), demand(1)), [true, true, false]);
    const [spent] = await spend(redis.store, rates, [demand(1)]);
    assert.ok(spent && !spent.letIn);
    // The bucket lacks 5,999 events, which come back at 100 a second.
    assert.ok(spent.eventsFullInMs > 30_000 && spent.eventsFullInMs <= 59_990);
  });

  test('count events and bytes, and either can be empty', async () => {
    await redis.flush();
    assert.deepEqual(await ask(demand(1, 10_000), demand(1, 1)), [true, false]);
  });

  test('belong to one client each', async () => {
    await redis.flush();
    assert.deepEqual(await ask(demand(5000), demand(1), demand(1, 1, 'mill')), [true, false, true]);
  });

  test('refill by the clock of Redis; a refused publish costs nothing', async () => {
    await redis.flush();
    const slow = { publishRate: 100, publishBytes: 0, publishBurstMs: 100 };
    const one = async () =>
      (await spend(redis.store, slow, [demand(1)]))[0] as { letIn: boolean; eventsFullInMs: number };
    const beganMs = performance.now();
    let letIn = 0;
    let refused: number | undefined;
    while (letIn < 15) {
      const spent = await one();
      if (spent.letIn) letIn++;
      // If a refusal cost anything, the bucket would be full later than before.
      else assert.ok(spent.eventsFullInMs <= (refused ?? spent.eventsFullInMs), 'a refusal was charged');
      refused = spent.letIn ? undefined : spent.eventsFullInMs;
    }
    const tookMs = performance.now() - beganMs;
    assert.ok(letIn <= (tookMs + 100) / 10 + 2, `${letIn} in ${tookMs} ms`);
  });

  test('are forgotten when they are full', async () => {
    await redis.flush();
    await ask(demand(6000));
    // The bucket lacks 6,000 events, which come back at 100 a second.
    const leftMs = await redis.store.redis.pttl(redis.store.keys.rate('shop'));
    assert.ok(leftMs > 30_000 && leftMs <= 60_001, `${leftMs} ms`);
  });

  /** Sets the clock of Redis back: what was stored before seems to be so much later. */
  const setBack = async (byMs: number) => {
    const { redis: raw, keys } = redis.store;
    const key = keys.rate('shop');
    for (const [field, value] of Object.entries(await raw.hgetall(key)))
      await raw.hset(key, field, Number(value) + byMs * 1000);
  };

  test('are as full as before when the clock of Redis was set back', async () => {
    await redis.flush();
    await ask(demand(500));
    await setBack(3_600_000);
    const [spent] = await spend(redis.store, rates, [demand(1)]);
    assert.ok(spent?.letIn);
    assert.ok(spent.eventsFullInMs > 4000 && spent.eventsFullInMs <= 5010, `${spent.eventsFullInMs} ms`);
  });

  test('fill also if they were empty when the clock of Redis was set back', async () => {
    await redis.flush();
    await ask(demand(2000));
    await setBack(3_600_000);
    assert.deepEqual(await ask(demand(1)), [false]);
    // Twelve seconds pass. The bucket lacks 2,000 events, of which 1,000 may be lacking.
    await setBack(-12_000);
    assert.deepEqual(await ask(demand(1)), [true]);
  });

  test('are read in one call for all publishes of a turn', async () => {
    await redis.flush();
    const limit = RateLimit.of(redis.store, rates) as RateLimit;
    await limit.admit('shop', 1);
    const before = await scriptCalls(redis.store);
    await Promise.all(Array.from({ length: 100 }, () => limit.admit('shop', 1)));
    assert.equal((await scriptCalls(redis.store)) - before, 1);
  });

  test('cost no call when no rate is limited', () => {
    const none = { publishRate: 0, publishBytes: 0, publishBurstMs: 10_000 };
    assert.equal(RateLimit.of(redis.store, none), undefined);
  });
});

describe('a publisher that is over its rate', () => {
  const env = {
    ROUTEMASTER_PUBLISH_RATE: '10',
    ROUTEMASTER_PUBLISH_BYTES: '100000',
    ROUTEMASTER_PUBLISH_BURST: '2',
    WEB_CONCURRENCY: '1',
  };
  const api = new Api({ env });
  const publish = (as: string, body: string, path = '/topics/widgets') =>
    api.call('POST', path, { as, body });

  test('is refused with the time to wait, and nothing is stored', async () => {
    const first = await publish('pub', events(5));
    assert.equal(first.status, 204);
    const policy = '"events";q=20;w=2;qu="events", "bytes";q=200000;w=2;qu="content-bytes"';
    assert.equal(first.headers['ratelimit-policy'], policy);
    assert.match(String(first.headers.ratelimit), /^"events";r=15;t=1, "bytes";r=(199\d\d\d|200000);t=[01]$/);

    // A last publish that large leaves the bucket empty for longer than any machine takes.
    assert.equal((await publish('pub', events(1000))).status, 204);
    const before = await stored(api);
    for (const path of ['/topics/widgets', '/topics/widgets?', '/topics/another']) {
      const refused = await publish('pub', EVENT, path);
      const { code, status, detail } = problemIn(refused);
      assert.deepEqual([status, code], [429, 'rate_limited']);
      assert.match(detail, /may publish 10 events a second and 100000 bytes a second; nothing was stored/);
      const [seconds] = [Number(refused.headers['retry-after'])];
      assert.ok(seconds >= 60 && seconds <= 99, `${seconds} s`);
      assert.equal(refused.headers['ratelimit-policy'], policy);
      assert.match(
        String(refused.headers.ratelimit),
        /^"events";r=0;t=(?:[6-9]\d|10[01]), "bytes";r=\d+;t=\d$/,
      );
    }
    assert.deepEqual(await stored(api), before);
    assert.equal((await publish('other', EVENT, '/topics/others')).status, 204, 'others are not');
  });

  test('is refused by every web process; one that knows the rate refuses before the body is read', async () => {
    assert.equal((await publish('mill', events(1000), '/topics/mills')).status, 204);
    const port = await api.another();
    await until(
      async () => (await send(port, 'GET', '/pulse', { authorization: basic('x', '') })).status === 401,
    );
    const authorization = await api.authorization('mill');
    const refused = await send(port, 'POST', '/topics/mills', { authorization }, EVENT);
    assert.equal(problemIn(refused).code, 'rate_limited');

    // Only the head is sent: an answer shows that the bus did not wait for the body.
    const head = ['POST /topics/mills HTTP/1.1', 'Host: a', `Authorization: ${authorization}`];
    const waiting = [...head, 'Expect: 100-continue', 'Content-Length: 10'];
    assert.equal((await publish('mill', EVENT, '/topics/mills')).status, 429);
    assert.equal((await api.raw(`${waiting.join('\r\n')}\r\n\r\n`)).status, 429);
  });

  test('is admitted again within the time in Retry-After', async () => {
    const refused = await until(async () => {
      const answer = await publish('shop', events(35), '/topics/shops');
      return answer.status === 429 ? answer : undefined;
    });
    const admittedAtMs = performance.now() + Number(refused.headers['retry-after']) * 1000;
    await until(() => performance.now() >= admittedAtMs);
    assert.equal((await publish('shop', EVENT, '/topics/shops')).status, 204);
  });

  test('by bytes is refused as well', async () => {
    const body = EVENT + ' '.repeat(4_000_000);
    assert.equal((await publish('heavy', body, '/topics/heavy')).status, 204);
    const refused = await publish('heavy', EVENT, '/topics/heavy');
    assert.equal(refused.status, 429);
    assert.match(String(refused.headers.ratelimit), /"events";r=(?:1[89]|20);t=\d, "bytes";r=0;t=(?:3\d|40)/);
  });

  test('or under it is answered 503 like any other publisher when Redis goes away', async () => {
    assert.equal((await publish('unlucky', EVENT, '/topics/lost')).status, 204);
    await api.redis.kill();
    for (let n = 0; n < 2; n++)
      assert.equal(problemIn(await publish('unlucky', EVENT, '/topics/lost')).code, 'storage_unavailable');
  });
});

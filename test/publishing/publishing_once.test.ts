import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, type TestContext, test } from 'node:test';
import { type Answer, basic, problemIn, send } from '../../harness/http/api.ts';
import { MeddlingProxy, piece } from '../../harness/meddling_proxy.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { WebProcess } from '../../harness/processes/web_process.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { until } from '../../harness/until.ts';

const CLIENT = 'fixed--1';
/** Texts by which the proxy knows a publish and the reply to it: accepted, for one subscriber. */
const SENT = 'https://app.example.com/1';
const STORED = '*3\r\n*1\r\n$8\r\naccepted\r\n';
const REPLAYED = 'idempotent-replayed';
const BODY = `{"type":"noop","url":"${SENT}"}`;

const redis = new TestStore();
const bus = new Bus(() => redis.store);

/** A web process on which `fixed--1` may publish. */
class Web {
  readonly process: WebProcess;
  #port = 0;

  static async start(redisUrl: string, env: Record<string, string> = {}): Promise<Web> {
    const web = new Web(
      new WebProcess({ ROUTEMASTER_REDIS_URL: redisUrl, ROUTEMASTER_CLIENTS: CLIENT, ...env }),
    );
    web.#port = await web.process.port();
    await until(() => web.works());
    return web;
  }

  private constructor(process: WebProcess) {
    this.process = process;
  }

  async works(): Promise<boolean> {
    return (await send(this.#port, 'GET', '/pulse', { authorization: basic(ROOT_KEY, '') })).status === 204;
  }

  publish(key: string): Promise<Answer> {
    const headers = { authorization: basic(CLIENT, 'x'), 'idempotency-key': key };
    return send(this.#port, 'POST', '/topics/widgets', headers, BODY);
  }
}

async function webOf(t: TestContext, redisUrl: string, env?: Record<string, string>): Promise<Web> {
  const web = await Web.start(redisUrl, env);
  t.after(() => web.process.kill());
  return web;
}

async function proxyOf(t: TestContext): Promise<MeddlingProxy> {
  const proxy = await MeddlingProxy.toRedis(redis.redis.socketPath ?? '');
  t.after(() => proxy.stop());
  return proxy;
}

/** Resolves with the number of copies of the event in Redis. Asserts that the topic has counted the same number. */
async function copies(): Promise<number> {
  const { gauges } = await bus.state();
  const counter = Number(await redis.store.redis.hget('topic:widgets', 'counter'));
  assert.equal(gauges.events.alice ?? 0, counter);
  await assertConsistent(redis.store);
  return counter;
}

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('alice', { timeout: 3_600_000 });
});

test('a publish repeated at another web process is answered there, and stored once', async (t) => {
  const [direct, other] = [await webOf(t, redis.redis.url), await webOf(t, redis.redis.url)];
  const key = randomUUID();
  const first = await direct.publish(key);
  assert.deepEqual([first.status, first.headers[REPLAYED]], [204, undefined]);
  const again = await other.publish(key);
  assert.deepEqual([again.status, again.headers[REPLAYED]], [204, 'true']);

  const atOnce = randomUUID();
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) => (n % 2 ? direct : other).publish(atOnce)),
  );
  assert.ok(answers.every(({ status }) => status === 204));
  assert.equal(answers.filter(({ headers }) => headers[REPLAYED] === undefined).length, 1);
  assert.equal(await copies(), 2);
});

describe('when Redis is cut off during a publish, the publisher gets 503', () => {
  const cuts: [what: 'request' | 'reply', having: string, stored: boolean][] = [
    ['reply', STORED, true],
    ['request', SENT, false],
  ];
  for (const [what, having, stored] of cuts) {
    test(`and repeats it: the ${what} was lost`, async (t) => {
      const proxy = await proxyOf(t);
      const web = await webOf(t, proxy.url);
      const key = randomUUID();
      void proxy.strike(piece(what, having), { end: 'cut' });
      const lost = await web.publish(key);
      const { code, detail } = problemIn(lost);
      assert.equal(code, 'storage_unavailable');
      assert.match(detail, /unknown whether anything was stored.*Idempotency-Key/);
      assert.equal(await copies(), stored ? 1 : 0);

      await until(() => web.works());
      const again = await web.publish(key);
      assert.deepEqual([again.status, again.headers[REPLAYED]], [204, stored ? 'true' : undefined]);
      assert.equal(await copies(), 1);
    });
  }
});

test('a publish whose web process died before it answered can be repeated at another', async (t) => {
  const proxy = await proxyOf(t);
  const [web, direct] = [await webOf(t, proxy.url), await webOf(t, redis.redis.url)];
  const key = randomUUID();
  void proxy.strike(piece('reply', STORED), { end: 'mute' });
  const lost = assert.rejects(web.publish(key), /socket hang up|ECONNRESET/);
  await until(async () => (await copies()) === 1);
  await web.process.kill();
  await lost;
  const again = await direct.publish(key);
  assert.deepEqual([again.status, again.headers[REPLAYED]], [204, 'true']);
  assert.equal(await copies(), 1);
});

test('a key is forgotten after ROUTEMASTER_IDEMPOTENCY_WINDOW', async (t) => {
  const web = await webOf(t, redis.redis.url, { ROUTEMASTER_IDEMPOTENCY_WINDOW: '2' });
  const key = randomUUID();
  assert.equal((await web.publish(key)).headers[REPLAYED], undefined);
  assert.equal((await web.publish(key)).headers[REPLAYED], 'true');
  await until(async () => (await web.publish(key)).headers[REPLAYED] === undefined);
  assert.equal(await copies(), 2);
});

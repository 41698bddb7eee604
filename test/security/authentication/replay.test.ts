import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { scriptCalls } from '../../../harness/redis/script_calls.ts';
import { NonceKeys } from '../../../src/authentication/nonce_keys.ts';
import { NonceUses } from '../../../src/authentication/nonce_uses.ts';
import { answerParameters, challengeFor, header, parametersOf } from '../../authentication/digest_client.ts';
import { GuardedServer } from '../../authentication/guarded_server.ts';

// Two web processes that share nothing but Redis.
const one = new GuardedServer();
const other = new GuardedServer({}, one.redis);
const both = [one, other];

let token: string;
let secret: string;
beforeEach(async () => {
  ({ token, secret } = await one.clients.create('billing'));
  one.log.length = 0;
});

const digestsIn = (challenges: string[]) => challenges.filter((each) => each.startsWith('Digest'));
const challenge = async (server = one) =>
  challengeFor('SHA-256', digestsIn((await server.get('/client')).challenges));
const answerTo = (given: Record<string, string>, count: number, algorithm = 'SHA-256') =>
  header(answerParameters({ ...given, algorithm }, { user: token, secret, uri: '/client', count }));
const isStale = (challenges: string[]) =>
  digestsIn(challenges).length > 0 &&
  digestsIn(challenges).every((each) => parametersOf(each).stale === 'true');

describe('a recorded request', () => {
  test('is refused when it is sent again, at any web process, as stale', async () => {
    const recorded = answerTo(await challenge(), 1);
    assert.equal((await one.get('/client', recorded)).status, 200);
    for (const server of both) {
      const again = await server.get('/client', recorded);
      assert.equal(again.status, 401);
      assert.ok(isStale(again.challenges), again.challenges.join('\n'));
    }
    assert.deepEqual(
      one.log.map(({ reason, client }) => ({ reason, client })),
      [{ reason: 'repeated_count', client: token }],
    );
  });

  test('is refused with the other algorithm too: the use is consumed', async () => {
    const given = await challenge();
    assert.equal((await one.get('/client', answerTo(given, 1))).status, 200);
    assert.equal((await one.get('/client', answerTo(given, 1, 'MD5'))).status, 401);
  });

  test('is admitted once, however many copies come at a time', async () => {
    const recorded = answerTo(await challenge(), 1);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => both[index % 2]?.get('/client', recorded)),
    );
    assert.equal(answers.filter((answer) => answer?.status === 200).length, 1);
  });
});

describe('the uses of a nonce', () => {
  test('are accepted in any order and by any process, each once', async () => {
    const given = await challenge(other);
    const counts = Array.from({ length: 30 }, (_, index) => ((index * 7) % 30) + 1);
    const send = () =>
      Promise.all(counts.map((count, index) => both[index % 2]?.get('/client', answerTo(given, count))));
    assert.deepEqual(new Set((await send()).map((answer) => answer?.status)), new Set([200]));
    assert.deepEqual(new Set((await send()).map((answer) => answer?.status)), new Set([401]));
  });

  test('that are far ahead are stale, so the client continues with a new nonce; other uses are still accepted', async () => {
    const given = await challenge();
    for (const count of [512, 65_536, 0xffffffff]) {
      const { status, challenges } = await one.get('/client', answerTo(given, count));
      assert.deepEqual([status, isStale(challenges)], [401, true], String(count));
    }
    assert.equal((await one.get('/client', answerTo(given, 511))).status, 200);
    assert.equal((await one.get('/client', answerTo(given, 1))).status, 200);
    assert.equal((await one.get('/client', answerTo(given, 1023))).status, 200);
  });

  test('take no memory for a wrong secret, at most 300 bytes for a right one, and none after the nonce expires', async () => {
    const { redis } = one.redis.store;
    await redis.del(...(await redis.keys('digest:counts:*')), '-');
    const given = await challenge();
    const wrong = header(answerParameters(given, { user: token, secret: 'wrong', uri: '/client' }));
    assert.equal((await one.get('/client', wrong)).status, 401);
    assert.deepEqual(await redis.keys('digest:counts:*'), []);
    assert.equal((await one.get('/client', answerTo(given, 511))).status, 200);
    const [key = ''] = await redis.keys('digest:counts:*');
    const bytes = await redis.memory('USAGE', key);
    assert.ok(Number(bytes) <= 300, `${bytes} bytes`);
    const ttlMs = await redis.pttl(key);
    // Redis keeps the uses of the nonce for longer than the nonce is valid, but not much longer.
    assert.ok(ttlMs > 6 * 60_000 - 5000 && ttlMs <= 7 * 60_000, `${ttlMs} ms`);
  });

  test('of one turn cost one call of Redis', async () => {
    const { store } = one.redis;
    const uses = new NonceUses(store);
    const keys = new NonceKeys(store);
    await keys.load();
    const issuedAtMs = keys.nowMs();
    const key = keys.current() as Buffer;
    const before = await scriptCalls(store);
    const consumed = await Promise.all(
      Array.from({ length: 500 }, (_, index) =>
        uses.consume({ nonce: 'nonce', count: index + 1, issuedAtMs, key, client: 'billing' }),
      ),
    );
    assert.ok(consumed.every((outcome) => outcome === 'consumed'));
    assert.equal((await scriptCalls(store)) - before, 1);
  });
});

test('while Redis is away Digest admits no request, since the nonce uses are unknown', async () => {
  const given = await challenge();
  assert.equal((await one.get('/client', answerTo(given, 1))).status, 200);
  await one.redis.redis.kill('SIGKILL');
  const { status, body } = await one.get('/client', answerTo(given, 2));
  assert.deepEqual([status, body.code], [503, 'storage_unavailable']);
});

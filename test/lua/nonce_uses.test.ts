import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { NonceKeys } from '../../src/authentication/nonce_keys.ts';
import type { Keyspace } from '../../src/store/keys.ts';

const STEP = 512;
/**
 * Time in which an empty quota of three nonces becomes full: long, so that none is regained within a test by itself.
 */
const KEPT_MS = 60_000;
const AHEAD_MS = 10_000;
const redis = new TestStore();
let nonceKeys: NonceKeys;

beforeEach(async () => {
  await redis.flush();
  nonceKeys = new NonceKeys(redis.store);
  await nonceKeys.load();
});

type Use = [nonce: string, count: number, client?: string];

async function outcomesOf(...uses: Use[]): Promise<string[]> {
  return useWith({ issuedAtMs: nonceKeys.nowMs() }, ...uses);
}

async function useWith({ issuedAtMs }: { issuedAtMs: number }, ...uses: Use[]): Promise<string[]> {
  const key = nonceKeys.current() as Buffer;
  return redis.store.run('nonce_uses', {
    keptMs: KEPT_MS,
    aheadMs: AHEAD_MS,
    maxClientNonces: 3,
    uses: uses.map(([nonce, count, client = 'shop']) => ({ nonce, count, issuedAtMs, key, client })),
  });
}

/** Resolves when new nonces are issued later than the refusal of `shop`: nonces of the same ms count as old. */
async function pastRefusal(): Promise<void> {
  const { redis: raw, keys } = redis.store;
  const [refusedAtMs] = String(await raw.get(keys.nonces_refused('shop'))).split(' ', 1);
  await until(() => nonceKeys.nowMs() > Number(refusedAtMs));
}

/** Gives one nonce back to the quota of `shop`, as the passing of time would, after its refusal. */
async function regainOne(): Promise<void> {
  await pastRefusal();
  await moveQuota(-KEPT_MS / 3);
}

/** Moves the time of a client's last refusal by an hour, as if Redis's clock had been set back by that. */
async function moveRefusal(client: string): Promise<void> {
  const { redis: raw, keys } = redis.store;
  const key = keys.nonces_refused(client);
  const text = (await raw.getBuffer(key)) as Buffer;
  const length = text.indexOf(' ');
  const atMs = Number(text.toString('latin1', 0, length)) + 3_600_000;
  await raw.set(key, Buffer.concat([Buffer.from(String(atMs)), text.subarray(length)]), 'KEEPTTL');
}

/** Moves the times in a client's quota, as if Redis's clock had been set back by `ms`, or forward if negative. */
async function moveQuota(ms: number, client = 'shop'): Promise<void> {
  const { redis: raw, keys } = redis.store;
  const key = keys.nonce_quota(client);
  const times = String(await raw.get(key)).split(' ');
  await raw.set(key, times.map((us) => Number(us) + ms * 1000).join(' '), 'KEEPTTL');
}

describe("a client's quota of nonces", () => {
  test('loses one for each new nonce and each further step of bits, and none for uses in between', async () => {
    const inOrder = Array.from({ length: 2 * STEP - 1 }, (_, index): Use => ['a', index + 1]);
    assert.deepEqual(new Set(await outcomesOf(...inOrder)), new Set(['consumed']));
    assert.deepEqual(await outcomesOf(['b', 1], ['c', 1], ['c', 1, 'mill']), [
      'consumed',
      'too_many_nonces',
      'consumed',
    ]);
    assert.deepEqual(await outcomesOf(['b', 2], ['b', 2], ['b', STEP - 1]), [
      'consumed',
      'repeated',
      'consumed',
    ]);
  });

  test('is regained as time passes, and leaves nothing in Redis then', async () => {
    await outcomesOf(['a', 1], ['b', 1], ['c', 1]);
    assert.deepEqual(await outcomesOf(['d', 1]), ['too_many_nonces']);
    const { redis: raw, keys } = redis.store;
    assert.equal(await raw.exists(keys.nonce_uses('d')), 0, 'the refused use is not consumed');
    const leftMs = await raw.pttl(keys.nonce_quota('shop'));
    assert.ok(leftMs > KEPT_MS / 2 && leftMs <= KEPT_MS, `${leftMs} ms`);
    await regainOne();
    assert.deepEqual(await outcomesOf(['e', 1], ['f', 1]), ['consumed', 'too_many_nonces']);
  });

  test('is as full as before when the clock of Redis was set back', async () => {
    await outcomesOf(['a', 1]);
    await moveQuota(3_600_000);
    assert.deepEqual(await outcomesOf(['b', 1], ['c', 1], ['d', 1]), [
      'consumed',
      'consumed',
      'too_many_nonces',
    ]);
    await moveQuota(3_600_000);
    await pastRefusal();
    assert.deepEqual(await outcomesOf(['e', 1]), ['too_many_nonces']);
    await regainOne();
    assert.deepEqual(await outcomesOf(['e', 1]), ['consumed']);
  });

  test('ends the nonces that got no step before a use was refused: it may have been recorded', async () => {
    const before = { issuedAtMs: nonceKeys.nowMs() };
    // By the estimate of this process, the time of Redis may be a few ms later than it is. So this waits until Redis
    // has passed the time of the nonce.
    await until(async () => Number((await redis.store.redis.time())[0]) * 1000 > before.issuedAtMs);
    await outcomesOf(['a', 1], ['b', 1], ['c', 1]);
    assert.deepEqual(await useWith(before, ['d', 1]), ['too_many_nonces']);
    await regainOne();
    assert.deepEqual(await outcomesOf(['e', 1]), ['consumed']);
    assert.deepEqual(await useWith(before, ['d', 1], ['a', STEP], ['a', 2]), ['old', 'old', 'consumed']);
  });

  test('does not end new nonces when the clock of Redis was set back after a refusal', async () => {
    const clients = ['shop', 'till', 'lab'];
    for (const client of clients) {
      const uses = ['a', 'b', 'c', 'refused'].map((nonce): Use => [`${nonce} of ${client}`, 1, client]);
      assert.equal((await outcomesOf(...uses)).at(-1), 'too_many_nonces');
      await moveRefusal(client);
      await moveQuota(-KEPT_MS, client);
    }
    const oldKey = nonceKeys.current() as Buffer;
    // What was refused may have been recorded. So it is not consumed now, and neither is any other use of that time.
    assert.deepEqual(await outcomesOf(['d', 1], ['refused of shop', 1]), ['replaced', 'replaced']);
    await nonceKeys.load();
    assert.notDeepEqual(nonceKeys.current(), oldKey);
    for (const client of clients)
      assert.deepEqual(await outcomesOf([`d of ${client}`, 1, client]), ['consumed'], client);
  });
});

test('a nonce is good for no use whose bits could be gone while it is used again', async () => {
  const maxAgeMs = KEPT_MS - AHEAD_MS;
  // By the estimate of this process, the time of Redis may be a few ms later than it is, so 100 ms are added.
  const ages = [KEPT_MS, maxAgeMs + 100, maxAgeMs - 5000, 5000 - AHEAD_MS, -AHEAD_MS - 5000];
  const nowMs = nonceKeys.nowMs();
  const outcomes: string[] = [];
  for (const [index, ageMs] of ages.entries())
    outcomes.push(...(await useWith({ issuedAtMs: nowMs - ageMs }, [`n${index}`, 1, `client_${index}`])));
  assert.deepEqual(outcomes, ['expired', 'expired', 'consumed', 'consumed', 'expired']);
});

describe('a key of another type', () => {
  for (const damaged of [
    ['digest:quota', (keys: Keyspace) => keys.nonce_quota('shop')],
    ['digest:refused', (keys: Keyspace) => keys.nonces_refused('shop')],
    ['digest:counts', (keys: Keyspace) => keys.nonce_uses('damaged')],
  ] as const)
    test(`fails the use that needs it alone, and not those of other clients beside it: ${damaged[0]}`, async () => {
      const { redis: raw, keys } = redis.store;
      await raw.rpush(damaged[1](keys), 'x');
      const outcomes = await outcomesOf(['a', 1, 'other'], ['damaged', 1, 'shop'], ['b', 1, 'other']);
      assert.deepEqual(outcomes, ['consumed', 'unreadable', 'consumed']);
      assert.equal((await outcomesOf(['b', 1, 'other']))[0], 'repeated');
    });
});

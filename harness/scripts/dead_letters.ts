import assert from 'node:assert/strict';
import type { FailedAttempt } from '../../src/delivering/attempt.ts';
import { Queue } from '../../src/delivering/queue.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { Readable } from './image.ts';
import { shortName } from './names.ts';

interface DeadLetterState {
  token: string;
  attempts: number;
  events: string[];
  reason: string;
  /** The number of attempts in the history. */
  history: number;
}

const bidsUnder = async ({ redis }: Readable, key: (bid: string) => string): Promise<string[]> =>
  (await redis.keys(key('?'.repeat(20)))).map((each) => each.slice(-20)).sort();

/** Returns the dead letters by their short names. */
export async function readDeadLetters(store: Readable): Promise<Record<string, DeadLetterState>> {
  const { redis, keys } = store;
  const letters: Record<string, DeadLetterState> = {};
  for (const bid of await bidsUnder(store, keys.dead_letter)) {
    const [token = '', , attempts, ...events] = await redis.lrange(keys.dead_letter(bid), 0, -1);
    const reason = (await redis.hget(keys.dead_letter_about(bid), 'reason')) ?? '';
    const history = await redis.llen(keys.attempts(bid));
    letters[shortName(bid)] = { token, attempts: Number(attempts), events, reason, history };
  }
  return letters;
}

/**
 * Checks that every dead letter has its index entries with its time of death and is no batch, that gauges
 * equal the contents of the lists, and that nothing is left of deleted dead letters, such as a history of attempts.
 */
export async function assertDeadLetters(store: Readable): Promise<void> {
  const { redis, keys } = store;
  const bids = await bidsUnder(store, keys.dead_letter);
  const batches = await bidsUnder(store, keys.batch);
  assert.deepEqual(await bidsUnder(store, keys.dead_letter_about), bids, 'each dead letter has its reason');
  assert.deepEqual(
    (await redis.zrange(keys.dead_letters_index(), '0', '-1')).sort(),
    bids,
    'all are indexed',
  );
  const events: Record<string, string> = {};
  const letters: Record<string, number> = {};
  for (const bid of bids) {
    assert.ok(!batches.includes(bid), `${bid} is a dead letter, and no batch`);
    const [token = ''] = await redis.lrange(keys.dead_letter(bid), 0, 0);
    const diedAt = await redis.hget(keys.dead_letter_about(bid), 'died_at');
    assert.match(String(diedAt), /^\d{13}$/, `${bid} died at a time`);
    assert.equal(await redis.zscore(keys.dead_letters_index(), bid), diedAt);
    assert.equal(await redis.zscore(keys.dead_letters_of(token), bid), diedAt);
    const held = (await redis.llen(keys.dead_letter(bid))) - 3;
    assert.ok(held > 0, `${bid} has events`);
    events[token] = String(Number(events[token] ?? 0) + held);
    letters[token] = (letters[token] ?? 0) + 1;
  }
  assert.deepEqual(await redis.hgetall(keys.dead_letters_events()), events, 'gauges are what the lists hold');
  const indexed: Record<string, number> = {};
  for (const key of await redis.keys(keys.dead_letters_of('*')))
    indexed[key.slice(keys.dead_letters_of('').length)] = await redis.zcard(key);
  assert.deepEqual(indexed, letters, 'each is in the index of its subscriber alone');
  for (const bid of await bidsUnder(store, keys.attempts))
    assert.ok(bids.includes(bid) || batches.includes(bid), `${bid}, of which attempts are told, exists`);
}

/** Stores dead letters of one event each for a subscriber, with no regard to how they came to be. */
export async function putDeadLetters(
  { redis, keys }: Partition,
  token: string,
  count: number,
): Promise<void> {
  const nowMs = Date.now();
  const event = '{"id":"1","topic":"widgets","type":"noop","url":"https://e.example/1","t":1}';
  const put = async (n: number) => {
    const bid = `letter-${n}`.padEnd(20, '-');
    await Promise.all([
      redis.rpush(keys.dead_letter(bid), token, nowMs, 1, event),
      redis.hset(keys.dead_letter_about(bid), 'reason', 'max_age', 'died_at', nowMs + n),
      redis.zadd(keys.dead_letters_index(), nowMs + n, bid),
      redis.zadd(keys.dead_letters_of(token), nowMs + n, bid),
    ]);
  };
  await Promise.all([
    redis.hincrby(keys.dead_letters_events(), token, count),
    ...Array.from({ length: count }, (_, n) => put(n)),
  ]);
}

const ATTEMPT: FailedAttempt = {
  atMs: 1_600_000_000_000,
  durationMs: 12,
  status: 500,
  reason: 'HTTP 500',
  answer: 'no',
};
const QUEUE = { laneLimit: 100, laneLimitMax: 100, leaseMs: 30_000, deliveryLog: 1000 };

/**
 * Makes dead letters of all batches whose jobs are instant, or become so meanwhile. `attempt` is the last
 * attempt at each batch.
 */
export async function buryAll(store: Partition, attempt = ATTEMPT): Promise<void> {
  const queue = new Queue(store, 'main', QUEUE);
  const burial = { damage: 0, throttleMs: 0, reason: 'max_attempts', attempt } as const;
  for (;;) {
    const { grants } = await queue.acquire(['undertaker']);
    if (grants.length === 0) break;
    for (const grant of grants) assert.ok((await queue.bury(grant, burial)).buried > 0);
  }
  await queue.retire(['undertaker']);
}

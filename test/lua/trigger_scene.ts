import assert from 'node:assert/strict';
import { afterEach, beforeEach } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { type Firing, fireTriggers, putTrigger } from '../../harness/scripts/triggers.ts';

/** Long past and far ahead, by the clock of Redis. */
export const PAST = 1_700_000_000_000;
export const AHEAD = 1_999_000_000_000;

/** What a file with tests of triggers needs: a Redis, and the scripts. */
export function triggerScene() {
  const redis = new TestStore();
  const bus = new Bus(() => redis.store);

  const put = (name: string, wanted: Parameters<typeof putTrigger>[2] = {}) =>
    putTrigger(redis.store, name, wanted);
  const due = async (limit = 100, turn = 0) =>
    (await redis.store.run('due_triggers', { limit, firstClient: turn, maxOutboxBytes: 1000 })).due;
  const state = (name: string, client = 'shop') =>
    redis.store.redis.hgetall(redis.store.keys.trigger(client, name));
  const score = (name: string, client = 'shop') =>
    redis.store.redis.zscore(redis.store.keys.triggers_due(), `${name} ${client}`);

  /** Resolves with the firing of a due trigger, as a worker computes it; by default it fires the due time. */
  const firingOf = async (name: string, wanted: Partial<Firing> = {}): Promise<Firing> => {
    const found = (await due()).find((each) => each.name === name) ?? assert.fail(`${name} is due`);
    const { client, revision, dueAt } = found;
    return { client, name, revision, dueAt, times: [dueAt], missed: 0, nextAt: AHEAD, ...wanted };
  };

  const fire = async (seed: string, ...firings: Firing[]) => {
    const { outcomes } = await fireTriggers(redis.store, seed, firings);
    return outcomes.map(({ outcome, fired }) => (outcome === 'handled' ? fired : outcome));
  };

  beforeEach(() => redis.flush());
  afterEach(() => assertConsistent(redis.store));
  return { redis, bus, put, due, state, score, firingOf, fire };
}

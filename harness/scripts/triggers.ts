import assert from 'node:assert/strict';
import { definitionText, readDefinition } from '../../src/flow/triggers/definition.ts';
import type { CatchUp } from '../../src/flow/triggers/plan.ts';
import { type Timing, timesOf } from '../../src/flow/triggers/schedule.ts';
import type { Arguments, Reply } from '../../src/store/contracts.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { Readable } from './image.ts';
import { seedOf } from './names.ts';

/** A limit of triggers, topics and bytes that no test reaches. */
const ROOM = 1_000_000;

export const EVERY_SECOND: Timing = { schedule: { every: 1000 }, start: 0, end: null, offset: 0 };

export interface WantedTrigger {
  client?: string;
  topic?: string;
  revision?: string;
  /** The revision that the call expects; by default the one that is there. */
  before?: string | undefined;
  data?: string;
  catchUp?: CatchUp;
  timing?: Timing;
  nextAt?: number | undefined;
  paused?: boolean;
  limits?: Partial<Arguments<'put_trigger'>>;
}

/** Puts a trigger of the client `shop` as a web process does. The client need not exist. */
export async function putTrigger(
  store: Partition,
  name: string,
  {
    client = 'shop',
    topic = 'widgets',
    catchUp = 'latest',
    timing = EVERY_SECOND,
    ...wanted
  }: WantedTrigger = {},
): Promise<Reply<'put_trigger'>> {
  const { revision = `${name}-${Math.random()}`, data, nextAt, paused = false, limits } = wanted;
  const { redis, keys } = store;
  const there = await redis.hget(keys.triggers_of(client), name);
  const before = 'before' in wanted ? wanted.before : there?.slice(0, there.indexOf('\n'));
  const event = { type: 'noop', url: 'https://shop.example.com/', ...(data && { data }) } as const;
  return store.run('put_trigger', {
    ...{ client, name, topic, before, nextAt },
    definition: definitionText(revision, { topic, event, catchUp, timing }),
    ...{ isFixed: true, isPaused: paused, step: 'put' },
    ...{ maxTriggers: ROOM, maxClientTriggers: ROOM, maxClientBytes: ROOM },
    ...{ maxTopics: ROOM, maxClientTopics: ROOM },
    ...limits,
  });
}

export type Firing = Arguments<'fire_triggers'>['firings'][number];

export function fireTriggers(
  store: Partition,
  seed: string,
  firings: readonly Firing[],
  limits: Partial<Arguments<'fire_triggers'>> = {},
): Promise<Reply<'fire_triggers'>> {
  return store.run('fire_triggers', {
    ...{ uidSeed: seedOf(seed), maxTopics: ROOM, maxClientTopics: ROOM, firings },
    ...{ burstMs: 10_000, eventsPerSecond: 0, bytesPerSecond: 0, waiting: [] },
    ...limits,
  });
}

/**
 * Checks the triggers: each has a definition that can be read, its counts, and an entry in `triggers:due`. The entry
 * has the time at which the trigger fires next, or infinity if it does not fire. There is no other entry.
 */
export async function assertTriggers({ redis, keys }: Readable): Promise<void> {
  const entries = await redis.zrange(keys.triggers_due(), '0', '-1', 'WITHSCORES');
  const found: Record<string, number> = {};
  for (let i = 0; i < entries.length; i += 2)
    found[entries[i] ?? ''] = Number(entries[i + 1]?.replace('inf', 'Infinity'));
  const expected: Record<string, number> = {};
  for (const key of await redis.keys(keys.triggers_of('*'))) {
    const client = key.slice(keys.triggers_of('').length);
    const definitions = await redis.hgetall(key);
    for (const [name, text] of Object.entries(definitions)) {
      const state = await redis.hgetall(keys.trigger(client, name));
      assert.match(`${state.fired} ${state.missed}`, /^\d+ \d+$/, `${name} of ${client} has its counts`);
      assert.equal('error' in state, 'error_at' in state, `${name} of ${client}`);
      timesOf(readDefinition(text).timing);
      // A moving trigger is due all the time.
      const soon = found[`${name} ${client}`] ?? Number.POSITIVE_INFINITY;
      if (state.moving) assert.ok(soon < Number.POSITIVE_INFINITY, `${name} of ${client} is due`);
      const next = state.moving ? soon : state.paused ? undefined : state.next_at;
      expected[`${name} ${client}`] = next === undefined ? Number.POSITIVE_INFINITY : Number(next);
    }
  }
  assert.deepEqual(found, expected, 'each trigger stands at its next time');
  const names = (await redis.keys(keys.trigger('*', '*'))).map((key) => {
    const [client = '', name = ''] = key.slice(keys.trigger('', '').length - 1).split(':');
    return `${name} ${client}`;
  });
  assert.deepEqual(names.sort(), Object.keys(expected).sort(), 'each trigger has a definition');
}

import { afterEach, beforeEach } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Published } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { CLIENT, JoinCalls, type Rules } from '../../harness/scripts/join_calls.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { type OpenKey, readOpenKeys } from '../../src/flow/joins/join_report.ts';
import { joinToken } from '../../src/ids.ts';

/** What the tests of joins share: a Redis, the scripts, and a subscriber of what the joins publish. */
export const redis = new TestStore();
export const bus = new Bus(() => redis.store);
export const joins = new JoinCalls(bus);
export const TOKEN = joinToken('order', CLIENT);

export const PAID_AND_PACKED: Rules = {
  sources: [
    { topic: 'paid', count: 1 },
    { topic: 'packed', count: 2 },
  ],
};

/** Publishes these events in one call, so that they share a batch. */
export const publish = (seed: string, ...events: string[]) =>
  bus.publishAll(seed, ...events.map((text): Published => [JSON.parse(text).topic, 'pub', [text]]));

interface JoinedEvent {
  id: string;
  topic: string;
  type: string;
  url: string;
  data: { join: string; key: string; events: string[]; counts?: Record<string, number>; early?: boolean };
}

/** Resolves with the events that the joins have published so far, as the subscriber `office` will get them. */
export async function published(): Promise<JoinedEvent[]> {
  const { batches, queued } = await bus.state();
  const names = queued.office ?? [];
  return names.flatMap((name) =>
    (batches[name]?.events ?? []).map((text) => JSON.parse(text) as JoinedEvent),
  );
}
export const publishedFor = async () => (await published()).map(({ data }) => [data.key, ...data.events]);

export async function openKeys(): Promise<OpenKey[]> {
  const { rules } = await joins.find('order');
  const page = await redis.store.command((commands, keys) =>
    readOpenKeys(commands, keys, { token: TOKEN, ...rules }, 100),
  );
  return page.keys;
}
export const open = async () =>
  Object.fromEntries((await openKeys()).map(({ key, counts, events }) => [key, { counts, events }]));

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('office', { topics: ['ready', 'stuck'], timeout: 600_000, max: 10_000 });
});
afterEach(async () => {
  await assertConsistent(redis.store);
  await assertNothingToSweep(redis.store);
});

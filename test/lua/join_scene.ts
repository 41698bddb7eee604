import { afterEach, beforeEach } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Published } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { CLIENT, JoinCalls, type Rules } from '../../harness/scripts/join_calls.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { type OpenKey, readOpenKeys } from '../../src/flow/joins/join_report.ts';
import { joinToken } from '../../src/ids.ts';

export const TOKEN = joinToken('order', CLIENT);

export const PAID_AND_PACKED: Rules = {
  sources: [
    { topic: 'paid', count: 1 },
    { topic: 'packed', count: 2 },
  ],
};

interface JoinedEvent {
  id: string;
  topic: string;
  type: string;
  url: string;
  data: { join: string; key: string; events: string[]; counts?: Record<string, number>; early?: boolean };
}

/** What a file with tests of joins needs: a Redis, the scripts, and a subscriber of what the joins publish. */
export function joinScene() {
  const redis = new TestStore();
  const bus = new Bus(() => redis.store);
  const joins = new JoinCalls(bus);

  /** Publishes these events in one call, so that they share a batch. */
  const publish = (seed: string, ...events: string[]) =>
    bus.publishAll(seed, ...events.map((text): Published => [JSON.parse(text).topic, 'pub', [text]]));

  /** Resolves with the events that the joins have published so far, as the subscriber `office` will get them. */
  const published = async (): Promise<JoinedEvent[]> => {
    const { batches, queued } = await bus.state();
    const names = queued.office ?? [];
    return names.flatMap((name) =>
      (batches[name]?.events ?? []).map((text) => JSON.parse(text) as JoinedEvent),
    );
  };
  const publishedFor = async () => (await published()).map(({ data }) => [data.key, ...data.events]);

  const openKeys = async (): Promise<OpenKey[]> => {
    const { rules } = await joins.find('order');
    const page = await redis.store.command((commands, keys) =>
      readOpenKeys(commands, keys, { token: TOKEN, ...rules }, 100),
    );
    return page.keys;
  };
  const open = async () =>
    Object.fromEntries((await openKeys()).map(({ key, counts, events }) => [key, { counts, events }]));

  beforeEach(async () => {
    await redis.flush();
    await bus.subscribe('office', { topics: ['ready', 'stuck'], timeout: 600_000, max: 10_000 });
  });
  afterEach(async () => {
    await assertConsistent(redis.store);
    await assertNothingToSweep(redis.store);
  });
  return { redis, bus, joins, publish, published, publishedFor, openKeys, open };
}

import assert from 'node:assert/strict';
import { type DropNotice, readDropNotice } from '../src/subscribing/drop_notice.ts';
import type { Readable } from './image.ts';

/** What was dropped of a subscriber's queue: of which no batch tells yet, of which one is to tell, and all that ever was. */
export interface GapState {
  untold: DropNotice | null;
  telling: DropNotice | null;
  ever: DropNotice | null;
}

export async function readGaps({ redis, keys }: Readable, token: string): Promise<GapState> {
  const read = async (key: string) => readDropNotice(await redis.hgetall(key));
  return {
    untold: await read(keys.gap(token)),
    telling: await read(keys.gap_telling(token)),
    ever: await read(keys.dropped(token)),
  };
}

/** Checks that only who subscribes has gaps, that topics come to their sum, and that what is to be told was dropped. */
export async function assertGaps(store: Readable): Promise<void> {
  const { redis, keys } = store;
  const held = [...(await redis.keys(keys.gap('*'))), ...(await redis.keys(keys.dropped('*')))];
  const tokens = new Set(held.map((key) => key.slice(key.lastIndexOf(':') + 1)));
  for (const token of tokens) {
    assert.equal(
      await redis.sismember(keys.subscribers(), token),
      1,
      `${token}, of whom was dropped, is left`,
    );
    const { untold, telling, ever } = await readGaps(store, token);
    for (const gap of [untold, telling, ever]) if (gap) assertGap(token, gap);
    for (const part of ['batches', 'events'] as const)
      assert.ok((untold?.[part] ?? 0) + (telling?.[part] ?? 0) <= (ever?.[part] ?? 0), `${token}: ${part}`);
  }
}

function assertGap(token: string, { batches, events, fromMs, toMs, topics }: DropNotice): void {
  assert.ok(batches > 0 && fromMs <= toMs, `${token} misses ${batches} batches from ${fromMs} to ${toMs}`);
  const sum = Object.values(topics).reduce((total, each) => total + each, 0);
  assert.equal(sum, events, `${token}: the topics come to all events`);
}

import assert from 'node:assert/strict';
import { type DropNotice, readDropNotice } from '../../src/subscribing/drop_notice.ts';
import type { Readable } from './image.ts';

/**
 * A subscriber's drop notices: no batch carries `next` yet, a batch carries `carried`, and `ever` is the total of all
 * drops.
 */
export interface GapState {
  next: DropNotice | null;
  carried: DropNotice | null;
  ever: DropNotice | null;
}

export async function readGaps({ redis, keys }: Readable, token: string): Promise<GapState> {
  const read = async (key: string) => readDropNotice(await redis.hgetall(key));
  return {
    next: await read(keys.drop_notice(token)),
    carried: await read(keys.drop_notice_carried(token)),
    ever: await read(keys.dropped(token)),
  };
}

/**
 * Checks that only subscribers have drop notices, that the topics add up to the number of events, and that no
 * more is announced than was ever dropped.
 */
export async function assertGaps(store: Readable): Promise<void> {
  const { redis, keys } = store;
  const held = [keys.drop_notice_carried, keys.drop_notice, keys.dropped].map(async (key) =>
    (await redis.keys(key('*'))).map((each) => each.slice(key('').length)),
  );
  // The keys of carried notices also begin like the keys of other notices, so they are left out here. Looking for a
  // colon would not do, because the tokens of joins have colons.
  const tokens = new Set((await Promise.all(held)).flat().filter((token) => !token.startsWith('telling:')));
  for (const token of tokens) {
    assert.equal(
      await redis.sismember(keys.subscribers(), token),
      1,
      `${token}, of whom was dropped, is left`,
    );
    const { next, carried, ever } = await readGaps(store, token);
    for (const gap of [next, carried, ever]) if (gap) assertGap(token, gap);
    for (const part of ['batches', 'events'] as const)
      assert.ok((next?.[part] ?? 0) + (carried?.[part] ?? 0) <= (ever?.[part] ?? 0), `${token}: ${part}`);
  }
}

function assertGap(token: string, { batches, events, fromMs, toMs, topics }: DropNotice): void {
  assert.ok(batches > 0 && fromMs <= toMs, `${token} misses ${batches} batches from ${fromMs} to ${toMs}`);
  const sum = Object.values(topics).reduce((total, each) => total + each, 0);
  assert.equal(sum, events, `${token}: the topics come to all events`);
}

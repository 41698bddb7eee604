import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { publishingParts } from '../../../harness/publishing.ts';
import { loadScripts, scriptCalls } from '../../../harness/redis/script_calls.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { DELAY_LIMITS } from '../../../harness/scripts/bus_inputs.ts';
import { readDelayed } from '../../../harness/scripts/delayed.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { BusError, StorageFull } from '../../../src/errors.ts';
import { Delaying } from '../../../src/flow/delayed/delaying.ts';
import type { ReadEvent } from '../../../src/publishing/event_fields.ts';
import { Partitions } from '../../../src/store/partitions.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const HOUR_MS = 3_600_000;
const recorder = {
  counted: [] as unknown[][],
  published: (...args: unknown[]) => void recorder.counted.push(['published', ...args]),
  added: (...args: unknown[]) => void recorder.counted.push(['added', ...args]),
};
let onFull = 0;
const delaying = () => {
  const parts = publishingParts(new Partitions(redis.store), { recorder, onFull: () => void onFull++ });
  return new Delaying({ ...parts, limits: DELAY_LIMITS });
};
const timed = (id: string): ReadEvent => ({ id, delay: HOUR_MS, text: id });
const publication = (...events: ReadEvent[]) => ({ topic: 'widgets', client: 'shop', events });

beforeEach(async () => {
  await redis.flush();
  await loadScripts(redis.store);
  recorder.counted = [];
  onFull = 0;
});
afterEach(() => assertConsistent(redis.store));

describe('publications with delayed events', () => {
  test('that come together share a call', async () => {
    const shared = delaying();
    const before = await scriptCalls(redis.store);
    const all = Array.from({ length: 50 }, (_, i) => shared.publish(publication(timed(`e${i}`))));
    for (const each of await Promise.all(all)) assert.equal(each.outcome, 'accepted');
    assert.equal((await scriptCalls(redis.store)) - before, 1);
    assert.equal((await readDelayed(redis.store)).widgets?.length, 50);
  });

  test('are answered one by one', async () => {
    const shared = delaying();
    const answers = await Promise.all([
      shared.publish(publication(timed('e1'))),
      shared.publish(publication('now', timed('e1'))),
      shared.publish({ ...publication(timed('e2')), client: 'mill' }),
    ]);
    assert.deepEqual(
      answers.map((each) => [each.outcome, each.index]),
      [
        ['accepted', undefined],
        ['already_delayed', 1],
        ['claimed_by_other', undefined],
      ],
    );
  });

  test('count what is published at once', async () => {
    await bus.subscribe('alice');
    assert.equal((await delaying().publish(publication('four', timed('e1'), 'five!'))).outcome, 'accepted');
    assert.deepEqual(recorder.counted, [
      ['published', 'widgets', 2, 9],
      ['added', 'alice', 2],
    ]);
    recorder.counted = [];
    await delaying().publish(publication(timed('e2')));
    assert.deepEqual(recorder.counted, []);
  });

  test('have 500 events with a time at most, beside others', async () => {
    const many = Array.from({ length: 500 }, (_, i) => timed(`e${i}`));
    await assert.rejects(
      delaying().publish(publication(...many, timed('more'))),
      new BusError(
        'body_too_large',
        'more than 500 events with at or delay in one request; send 500 at most',
      ),
    );
    const result = await delaying().publish(publication(...many, ...Array(3000).fill('now')));
    assert.equal(result.outcome, 'accepted');
  });

  test('are refused if they would make too many copies when they are due', async () => {
    const subscribers = Array.from({ length: 500 }, (_, i) => `s${i}`);
    await redis.store.redis.sadd('subscribers:widgets', ...subscribers);
    const many = Array.from({ length: 450 }, (_, i) => timed(`e${i}`));
    await assert.rejects(
      delaying().publish(publication(...many)),
      new BusError('body_too_large', 'widgets has 500 subscribers; send 400 events at a time at most'),
    );
    await redis.flush();
  });

  test('are refused while Redis has no memory left, and have some freed', async () => {
    await redis.store.redis.config('SET', 'maxmemory', '1');
    await assert.rejects(delaying().publish(publication(timed('e1'))), StorageFull);
    await redis.store.redis.config('SET', 'maxmemory', '0');
    assert.equal(onFull, 1);
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Gap, readGap } from '../../src/subscribing/gap.ts';

const gap: Gap = { batches: 2, events: 150, fromMs: 1_700_000_000_000, toMs: 1_700_000_001_000, topics: {} };
const hash = { batches: '2', events: '150', from: '1700000000000', to: '1700000001000' };

describe('readGap', () => {
  test('reads what a hash of drops holds', () => {
    const topics = { 'topic:widgets': '100', 'topic:users': '50' };
    assert.deepEqual(readGap({ ...hash, ...topics }), { ...gap, topics: { widgets: 100, users: 50 } });
  });

  test('is null where nothing was dropped', () => {
    assert.equal(readGap({}), null);
  });

  test('takes a topic of any name', () => {
    const read = readGap({ ...hash, 'topic:': '1', 'topic:__proto__': '2', 'topic:constructor': '147' });
    const topics = [
      ['', 1],
      ['__proto__', 2],
      ['constructor', 147],
    ];
    assert.deepEqual(Object.entries(read?.topics ?? {}), topics);
  });

  test('passes over fields that are no drops, such as the batch that tells', () => {
    assert.deepEqual(readGap({ ...hash, teller: 'a1' }), gap);
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type DropNotice, dropNoticeHeader, readDropNotice } from '../../src/subscribing/drop_notice.ts';

const notice: DropNotice = {
  batches: 2,
  events: 150,
  fromMs: 1_700_000_000_000,
  toMs: 1_700_000_001_000,
  topics: {},
};
const hash = { batches: '2', events: '150', from: '1700000000000', to: '1700000001000' };

describe('readDropNotice', () => {
  test('reads a hash of drops', () => {
    const topics = { 'topic:widgets': '100', 'topic:users': '50' };
    assert.deepEqual(readDropNotice({ ...hash, ...topics }), {
      ...notice,
      topics: { widgets: 100, users: 50 },
    });
  });

  test('returns null if nothing was dropped', () => {
    assert.equal(readDropNotice({}), null);
  });

  test('accepts any topic name', () => {
    const read = readDropNotice({
      ...hash,
      'topic:': '1',
      'topic:__proto__': '2',
      'topic:constructor': '147',
    });
    const topics = [
      ['', 1],
      ['__proto__', 2],
      ['constructor', 147],
    ];
    assert.deepEqual(Object.entries(read?.topics ?? {}), topics);
  });

  test('ignores other fields, such as the id of the batch that carries the notice', () => {
    assert.deepEqual(readDropNotice({ ...hash, teller: 'a1' }), notice);
  });
});

describe('dropNoticeHeader', () => {
  const header = (topics: Record<string, number>) =>
    dropNoticeHeader({ batches: 2, events: 150, fromMs: 17, toMs: 18, topics });

  test('writes a dictionary of structured fields, the most affected topics first', () => {
    assert.equal(
      header({ users: 50, widgets: 100 }),
      'batches=2, events=150, from=17, to=18, topics=("widgets";events=100 "users";events=50)',
    );
  });

  test('sorts equally affected topics by name', () => {
    assert.match(header({ b: 50, c: 50, a: 50 }), /topics=\("a";events=50 "b";events=50 "c";events=50\)$/);
  });

  test('lists events of an unknown topic under an empty name', () => {
    assert.match(header({ '': 150 }), /topics=\("";events=150\)$/);
  });

  test('lists fifty topics, and says how many more there are', () => {
    const long = header(Object.fromEntries(Array.from({ length: 52 }, (_, i) => [`t${i}`, 100 - i])));
    assert.equal(long.match(/;events=/g)?.length, 50);
    assert.match(long, /"t49";events=51\), more=2$/);
    assert.doesNotMatch(header({ widgets: 150 }), /more/);
  });

  test('stays below the 8 KB that servers accept, even with the longest names', () => {
    const names = Array.from({ length: 1000 }, (_, i) => String(i).padStart(64, 'x'));
    assert.ok(header(Object.fromEntries(names.map((name) => [name, 1e12]))).length < 5000);
  });
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { complaintsOf, type State } from '../../src/console/complaints.ts';
import { html } from '../../src/html.ts';
import type { Partition } from '../../src/store/partition.ts';

const MINUTE_MS = 60_000;
/** Figures of a bus where everything is wrong. */
const FIGURES: NonNullable<State['figures']> = {
  ...{ published: 0, delivered: 0, failed: 0, queued: 5, oldestSeconds: 600, memory: 95 },
  ...{ failing: 1, paused: 1, subscribers: 3, deadLetters: 2, latencies: 0, latencyMs: 0, dropped: 7 },
};

/** Returns what the overview may say, by the table of the document. */
function complaintsInDocument(): string[] {
  const text = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8');
  const [, table = ''] = /\| it says \|.*\n\| --- .*\n((?:\|.*\n)+)/.exec(text) ?? [];
  return table
    .trim()
    .split('\n')
    .map((row) => row.split('|')[1]?.trim() ?? '');
}

test('operating.md says what to do about each complaint of the overview', () => {
  const away = [3, 7].map((index) => ({ index }) as Partition);
  const memory = { used: 95, max: 100, highMark: 90, lowMark: 80, unfreed: 0, wrongPolicy: 'allkeys-lru' };
  const replicas = { fewest: 0, min: 1 };
  const dropped = { events: 7, agoMs: 4 * MINUTE_MS };
  const refusal = { word: 'MISCONF', partitions: undefined };
  const state = { figures: FIGURES, ageMs: 5 * MINUTE_MS, memory, away, replicas, dropped, refusal };
  const [forbidden] = complaintsOf({ ...state, refusal: { word: 'NOPERM', partitions: undefined } });
  assert.ok(forbidden);
  const complaints = [forbidden, ...complaintsOf(state)];
  const said = complaints.map(({ text }) => text.toLowerCase());
  assert.ok(
    said.includes('7 events were dropped within a day, the last at most 4 min ago.'),
    said.join('\n'),
  );
  const told = complaintsInDocument();
  for (const row of told) {
    const words = row
      .toLowerCase()
      .split(' ')
      .filter((word) => word !== 'a');
    assert.ok(
      said.some((text) => words.every((word) => text.includes(word))),
      `the overview says that ${row}`,
    );
  }
  assert.equal(told.length, said.length);
});

test('tells a client of its own trouble, and of that of the bus without what an operator does', () => {
  const memory = { used: 95, max: 100, highMark: 90, lowMark: 80, unfreed: 0 };
  const figures = { ...FIGURES, paused: 0, deadLetters: 1 };
  const dropped = { events: 1, agoMs: 15 * MINUTE_MS, ofJoins: 0 };
  const said = complaintsOf({ figures, ageMs: 0, memory, away: [], dropped, client: 'shop' }).map(
    ({ text, advice }) => html`${text} ${advice}`.text,
  );
  const page = '<a href="/console/subscribers/shop">Your subscriber</a>';
  assert.deepEqual(said, [
    'Memory is full: 95 B of 100 B. Publishes are refused, and the oldest batches are dropped. The operator of the bus can mend this.',
    `1 event of yours was dropped, the last 15 min ago. Memory ran short. Ask the publishers what has changed since: ${page} has the topics.`,
    `Your subscriber failed lately. Repair its callback. Its page has the last answers: ${page}.`,
    `Your oldest event waits for 10 min. Its subscriber fails, is paused or is too slow: ${page}.`,
    '1 dead letter of yours waits. Retry it when the cause is mended: <a href="/console/dead_letters">Dead letters</a>.',
  ]);
});

test('says which partitions have a Redis that refuses writes or commands, unless it is that of all', () => {
  const memory = { used: 0, max: 0, highMark: 0, lowMark: 0, unfreed: 0 };
  const said = (partitions?: Partition[], word = 'X') =>
    complaintsOf({ figures: undefined, ageMs: 0, memory, away: [], refusal: { word, partitions } }).map(
      ({ text, advice }) => `${text} ${advice}`,
    );
  const quoted = 'The log of the bus quotes what Redis says.';
  assert.deepEqual(said(), [
    `Redis refuses writes (X). Publishes are refused, and deliveries wait. ${quoted}`,
  ]);
  const some = [1, 3].map((index) => ({ index }) as Partition);
  assert.deepEqual(said(some), [
    `Redis refuses writes for partitions 1 and 3 (X). Publishes to topics there are refused, and deliveries there wait. ${quoted}`,
  ]);
  assert.match(
    said(some, 'NOPERM')[0] ?? '',
    /^Redis refuses commands for partitions 1 and 3 \(NOPERM\)\. Calls that need them are answered 503, and deliveries there may wait\. Its ACL/,
  );
});

test('tells a client which of its dropped events its joins have not counted', () => {
  const memory = { used: 0, max: 0, highMark: 0, lowMark: 0, unfreed: 0 };
  const state = { figures: undefined, ageMs: 0, memory, away: [], client: 'shop' };
  const advised = (ofJoins: number) =>
    complaintsOf({ ...state, dropped: { events: 7, agoMs: 0, ofJoins } }).map(
      ({ advice }) => html`${advice}`.text,
    );
  const publishers =
    'Ask the publishers what has changed since: <a href="/console/subscribers/shop">Your subscriber</a> has the topics.';
  const joins = '<a href="/console/joins">Your joins</a>';
  assert.deepEqual(advised(0), [`Memory ran short. ${publishers}`]);
  assert.deepEqual(advised(3), [
    `Memory ran short. ${publishers} Joins have not counted 3 of them, so keys may expire or stay open: ${joins}.`,
  ]);
  assert.deepEqual(advised(7), [
    `Memory ran short. Joins have not counted them, so keys may expire or stay open: ${joins}.`,
  ]);
});

test('tells to start a worker only if none is connected to Redis', () => {
  const memory = { used: 0, max: 0, highMark: 0, lowMark: 0, unfreed: 0 };
  const silent = { figures: undefined, ageMs: MINUTE_MS, memory, away: [] };
  const advised = (more: Partial<State>) => complaintsOf({ ...silent, ...more }).map(({ advice }) => advice);
  const START =
    'Nothing is delivered. Start a worker, or look into its log. A new one speaks within ten seconds.';
  assert.deepEqual(advised({}), [START]);
  assert.deepEqual(advised({ processes: { web: 1, worker: 0 } }), [START]);
  assert.deepEqual(advised({ processes: { web: 1, worker: 2 } }), [
    'Deliveries may wait. 2 worker processes are connected to Redis. A new one speaks within ten seconds. If none does, ' +
      'look into their log: Redis may refuse what they store, as with a full disk.',
  ]);
  assert.deepEqual(advised({ processes: { web: 1, worker: 2 }, client: 'shop' }), [
    'Deliveries may wait. The operator of the bus can mend this.',
  ]);
});

test('leads to the subscribers that a complaint is about, one or several', () => {
  const memory = { used: 0, max: 0, highMark: 0, lowMark: 0, unfreed: 0 };
  const advised = (failing: number, paused: number, deadLetters: number) =>
    complaintsOf({ figures: { ...FIGURES, failing, paused, deadLetters }, ageMs: 0, memory, away: [] })
      .map(({ advice }) => html`${advice}`.text)
      .join('\n');
  const one = advised(1, 1, 1);
  assert.match(one, /Repair its callback\. Its page has .*href="\/console\/subscribers\?state=failing"/);
  assert.match(one, /Its events are kept .* resumes it: .*href="\/console\/subscribers\?state=paused"/);
  assert.match(one, /href="\/console\/subscribers\?sort=oldest"/);
  assert.match(one, /Retry it when/);
  const several = advised(2, 2, 2);
  assert.match(several, /Repair their callbacks\. Their pages have /);
  assert.match(several, /Their events are kept .* resumes them: /);
  assert.match(several, /Retry them when/);
});

test('leads to those who fill Redis, the largest first, while it is full', () => {
  const memory = { used: 95, max: 100, highMark: 90, lowMark: 80, unfreed: 0 };
  const [full] = complaintsOf({ figures: undefined, ageMs: 0, memory, away: [] });
  assert.match(html`${full?.advice}`.text, /href="\/console\/subscribers\?sort=bytes">.* shows who fills it/);
});

test('warns when memory is nearly full, and names the mark at which it is full', () => {
  const memory = { max: 100, highMark: 90, lowMark: 80, unfreed: 0 };
  const said = (used: number) =>
    complaintsOf({ figures: undefined, ageMs: 0, memory: { ...memory, used }, away: [] }).map(
      ({ text, advice }) => html`${text} ${advice}`.text,
    );
  assert.deepEqual(said(80), []);
  assert.match(
    said(81).join(),
    /^Memory is nearly full: 81 B of 100 B\. Above 90 B publishes are refused, and the oldest batches are dropped\. Give/,
  );
  assert.match(said(91).join(), /^Memory is full: 91 B of 100 B\. Publishes are refused/);
});

test('leads to the batches that were dropped, which say who fills Redis', () => {
  const memory = { used: 95, max: 100, highMark: 90, lowMark: 80, unfreed: 0 };
  const state = { figures: undefined, ageMs: 0, memory, away: [], dropped: { events: 7, agoMs: 0 } };
  for (const { advice } of complaintsOf(state))
    assert.match(
      html`${advice}`.text,
      /href="\/console\/deliveries\?state=dropped">Dropped batches<\/a> says whose/,
    );
});

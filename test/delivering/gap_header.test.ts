import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gapHeader } from '../../src/delivering/gap_header.ts';

const gap = (topics: Record<string, number>) => ({ batches: 2, events: 150, fromMs: 17, toMs: 18, topics });

test('is a dictionary of structured fields, with those topics first of which most is missing', () => {
  assert.equal(
    gapHeader(gap({ users: 50, widgets: 100 })),
    'batches=2, events=150, from=17, to=18, topics=("widgets";events=100 "users";events=50)',
  );
});

test('sorts topics of which as much is missing by name', () => {
  assert.match(
    gapHeader(gap({ b: 50, c: 50, a: 50 })),
    /topics=\("a";events=50 "b";events=50 "c";events=50\)$/,
  );
});

test('has events of which the topic is not known under an empty name', () => {
  assert.match(gapHeader(gap({ '': 150 })), /topics=\("";events=150\)$/);
});

test('lists fifty topics, and says how many more there are', () => {
  const topics = Object.fromEntries(Array.from({ length: 52 }, (_, i) => [`t${i}`, 100 - i]));
  const header = gapHeader(gap(topics));
  assert.equal(header.match(/;events=/g)?.length, 50);
  assert.match(header, /"t49";events=51\), more=2$/);
  assert.doesNotMatch(gapHeader(gap({ widgets: 150 })), /more/);
});

test('stays below the 8 KB that servers take, with the longest names', () => {
  const topics = Object.fromEntries(
    Array.from({ length: 1000 }, (_, i) => [String(i).padStart(64, 'x'), 1e12]),
  );
  assert.ok(gapHeader(gap(topics)).length < 5000);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { latelyOf, unknownStanding } from '../../src/subscribing/ranking.ts';

test('a queue is forecast to be empty only if it loses at least an event a minute', () => {
  const drainedAfterMs = (growth: number, queued: number) => {
    const standing = { ...unknownStanding('a'), queued, delivered: 2, growth };
    const memory = { used: 0, highMark: null, growth: 0 };
    return latelyOf(standing, { events: { sent: 0, queued, oldest: 0 } }, { atMs: 0, memory }).drained_at;
  };
  assert.equal(drainedAfterMs(-2, 600), 300_000);
  assert.equal(drainedAfterMs(-1 / 60, 6), 360_000);
  // A short queue that is as long as ever: it is shorter than its mean by the remainder of a single event.
  assert.equal(drainedAfterMs(-0.0014, 6), null);
  assert.equal(drainedAfterMs(0, 6), null);
  assert.equal(drainedAfterMs(1, 6), null);
});

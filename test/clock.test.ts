import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atMostEvery, clock } from '../src/clock.ts';

test('what is done at most every second begins a second from now, or at once, and skips calls in between', (t) => {
  let nowMs = 5000;
  t.mock.method(clock, 'monotonicMs', () => nowMs);
  const done: string[] = [];
  const later = atMostEvery(1000, (what: string) => done.push(`later ${what}`));
  const atOnce = atMostEvery(1000, (what: string) => done.push(`at once ${what}`), Number.NEGATIVE_INFINITY);
  for (nowMs of [5000, 5999, 6000, 6500, 6999.5, 8100, 9000, 9100]) {
    later(`at ${nowMs}`);
    atOnce(`at ${nowMs}`);
  }
  assert.deepEqual(done, [
    ...['at once at 5000', 'later at 6000', 'at once at 6000'],
    ...['later at 8100', 'at once at 8100', 'later at 9100', 'at once at 9100'],
  ]);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../harness/until.ts';
import { clock } from '../../src/clock.ts';
import { Standstill } from '../../src/delivering/standstill.ts';

test('a standstill begins 10 ms after the last change that left all busy, and ends with the next change', async () => {
  let begun = 0;
  const standstill = new Standstill(() => begun++);
  const sinceMs = clock.monotonicMs();
  standstill.changed(0);
  assert.equal(standstill.holds, false);
  await until(() => begun === 1);
  assert.ok(clock.monotonicMs() - sinceMs >= 10);
  assert.equal(standstill.holds, true);
  standstill.changed(0);
  assert.equal(standstill.holds, false, 'one has ended, and taken another job');
  await until(() => begun === 2);
  standstill.changed(1);
  assert.equal(standstill.holds, false);
});

test('workers that begin and end jobs do not stand still, nor do idle ones', (t) => {
  let nowMs = 0;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  t.mock.method(clock, 'monotonicMs', () => nowMs);
  let begun = 0;
  const standstill = new Standstill(() => begun++);
  for (let turns = 0; turns < 20; turns++) {
    standstill.changed(0);
    nowMs += 9;
    t.mock.timers.tick(9);
  }
  assert.equal(begun, 0);
  standstill.changed(1);
  nowMs += 100;
  t.mock.timers.tick(100);
  assert.equal(begun, 0);
});

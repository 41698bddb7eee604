import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { MAX_TIME_MS, type Timing, timesOf } from '../../../src/flow/triggers/schedule.ts';

const START = 1_795_000_000_000;
const DAY_MS = 86_400_000;

const times = (timing: Partial<Timing>) =>
  timesOf({ schedule: { every: 1000 }, start: START, end: null, offset: 0, ...timing });
const every = (ms: number, timing: Partial<Timing> = {}) => times({ schedule: { every: ms }, ...timing });
const at = (ms: number, timing: Partial<Timing> = {}) => times({ schedule: { at: ms }, ...timing });
const daily = (timing: Partial<Timing> = {}) =>
  times({ schedule: { cron: '0 0 * * *', timezone: 'UTC' }, ...timing });

describe('a schedule', () => {
  test('by a period is aligned to its start, which is its first time', () => {
    assert.equal(every(60_000).next(START - 5), START);
    assert.equal(every(60_000).next(START), START + 60_000);
    assert.equal(every(60_000).next(START + 59_999), START + 60_000);
    assert.equal(every(60_000).previous(START + 60_000), START);
    assert.equal(every(60_000).previous(START), undefined);
    assert.equal(every(60_000).count(START - 1, START + 120_000), 3);
    assert.equal(every(60_000).count(START, START + 119_999), 1);
  });

  test('with a single time comes once', () => {
    assert.equal(at(START + 5).next(START), START + 5);
    assert.equal(at(START + 5).next(START + 5), undefined);
    assert.equal(at(START + 5).previous(START + 6), START + 5);
    assert.equal(at(START + 5).previous(START + 5), undefined);
    assert.equal(at(START + 5).count(START, START + 5), 1);
    assert.equal(at(START + 5).count(START + 5, START + 9), 0);
    assert.equal(at(START - 5).next(START - 9), undefined, 'it is before its start');
  });

  test('has no times before its start or after its end, both included', () => {
    const midnight = Math.ceil(START / DAY_MS) * DAY_MS;
    assert.equal(daily({ start: midnight }).next(0), midnight);
    assert.equal(daily({ start: midnight + 1 }).next(0), midnight + DAY_MS);
    const bounded = daily({ start: midnight, end: midnight + 2 * DAY_MS });
    assert.equal(bounded.next(midnight + DAY_MS), midnight + 2 * DAY_MS);
    assert.equal(bounded.next(midnight + 2 * DAY_MS), undefined);
    assert.equal(bounded.previous(midnight + 9 * DAY_MS), midnight + 2 * DAY_MS);
    assert.equal(bounded.previous(midnight), undefined);
    assert.equal(bounded.count(0, midnight + 9 * DAY_MS), 3);
    assert.equal(daily({ start: midnight, end: midnight - 1 }).next(0), undefined);
  });

  test('is moved by its offset, in either direction', () => {
    const midnight = Math.ceil(START / DAY_MS) * DAY_MS;
    for (const offset of [90_000, -90_000]) {
      const moved = daily({ offset, end: midnight + DAY_MS });
      assert.equal(moved.next(START), midnight + offset);
      assert.equal(moved.next(midnight + offset), midnight + DAY_MS + offset);
      assert.equal(moved.next(midnight + DAY_MS + offset), undefined);
      assert.equal(moved.previous(midnight + DAY_MS + offset), midnight + offset);
      assert.equal(moved.count(START, midnight + 9 * DAY_MS), 2);
    }
  });

  test('ends before its times are too long for the id of an event', () => {
    assert.equal(every(1000, { start: MAX_TIME_MS - 500 }).next(MAX_TIME_MS - 500), undefined);
    assert.equal(at(MAX_TIME_MS).next(START), MAX_TIME_MS);
    assert.equal(at(MAX_TIME_MS, { offset: 1 }).next(START), undefined);
  });

  test('goes forwards and backwards through the same times, and counts them', () => {
    const schedule = fc.oneof(
      fc.record({ every: fc.integer({ min: 1000, max: DAY_MS }) }),
      fc.record({ at: fc.integer({ min: START, max: START + 5 * DAY_MS }) }),
      fc.record({
        cron: fc.constantFrom('*/7 * * * *', '0 3 * * *', '15,45 2 * * SUN', '0 0 1 * *'),
        timezone: fc.constantFrom('UTC', 'Europe/Berlin'),
      }),
    );
    const timing = fc.record({
      schedule,
      start: fc.integer({ min: START, max: START + DAY_MS }),
      end: fc.option(fc.integer({ min: START, max: START + 9 * DAY_MS })),
      offset: fc.integer({ min: -DAY_MS, max: DAY_MS }),
    });
    const property = fc.property(
      timing,
      fc.integer({ min: START - DAY_MS, max: START + 5 * DAY_MS }),
      (each, from) => {
        const all = timesOf(each);
        const found: number[] = [];
        for (let at = all.next(from); at !== undefined && found.length < 20; at = all.next(at))
          found.push(at);
        for (const [index, time] of found.entries()) {
          assert.ok(time > (found[index - 1] ?? from));
          assert.equal(all.previous(time + 1), time);
          if (index > 0) assert.equal(all.previous(time), found[index - 1]);
          assert.equal(all.count(from, time), index + 1);
          assert.equal(all.count(from, time - 1), index);
        }
      },
    );
    fc.assert(property, { numRuns: 300 });
  });
});

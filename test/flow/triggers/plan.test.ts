import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { threadCpuSince } from '../../../harness/thread_cpu.ts';
import {
  CATCH_UPS,
  type CatchUp,
  MAX_CAUGHT_UP,
  type Plan,
  PROMPT_MS,
  plan,
} from '../../../src/flow/triggers/plan.ts';
import { timesOf } from '../../../src/flow/triggers/schedule.ts';

const START = 1_795_000_000_000;
const MINUTE_MS = 60_000;
const every = (ms: number, end: number | null = null) =>
  timesOf({ schedule: { every: ms }, start: START, end, offset: 0 });

const planned = (catchUp: CatchUp, lateMs: number, periodMs = MINUTE_MS) =>
  plan({ times: every(periodMs), catchUp, dueMs: START, nowMs: START + lateMs });

/** Plans until nothing is due, as a worker does. Returns the times that fire, and how many are missed. */
function handled(catchUp: CatchUp, lateMs: number, periodMs = MINUTE_MS) {
  const nowMs = START + lateMs;
  const fired: number[] = [];
  let [missed, dueMs]: [number, number | undefined] = [0, START];
  while (dueMs !== undefined && dueMs <= nowMs) {
    const step: Plan = plan({ times: every(periodMs), catchUp, dueMs, nowMs });
    fired.push(...step.times);
    missed += step.missed;
    dueMs = step.nextMs;
  }
  return { fired, missed, nextMs: dueMs };
}

describe('a due time', () => {
  test('that is on time fires, and the next one is stored', () => {
    for (const catchUp of CATCH_UPS)
      assert.deepEqual(planned(catchUp, 3), { times: [START], missed: 0, nextMs: START + MINUTE_MS });
  });

  test('that is up to ten seconds late fires with all after it, whatever `catch_up` says', () => {
    for (const catchUp of CATCH_UPS) {
      const { times, missed, nextMs } = planned(catchUp, PROMPT_MS, 1000);
      assert.equal(times.length, 11);
      assert.deepEqual([times[0], times.at(-1), missed, nextMs], [START, START + 10_000, 0, START + 11_000]);
    }
  });

  test('that is later is left to `catch_up`, also if it is the only one', () => {
    const lateMs = PROMPT_MS + 1;
    assert.deepEqual(planned('none', lateMs), { times: [], missed: 1, nextMs: START + MINUTE_MS });
    for (const catchUp of ['latest', 'all'] as const)
      assert.deepEqual(planned(catchUp, lateMs), { times: [START], missed: 0, nextMs: START + MINUTE_MS });
  });

  test('without one after it ends the trigger', () => {
    const last = plan({ times: every(1000, START), catchUp: 'all', dueMs: START, nowMs: START + 1 });
    assert.deepEqual(last, { times: [START], missed: 0, nextMs: undefined });
  });
});

// 60 times fell due: one each minute from the start on.
describe('after an hour', () => {
  const HOUR = 59 * MINUTE_MS + 30_000;
  const latest = START + 59 * MINUTE_MS;

  test('none of the times fires', () => {
    assert.deepEqual(handled('none', HOUR), { fired: [], missed: 60, nextMs: latest + MINUTE_MS });
  });

  test('the latest fires', () => {
    assert.deepEqual(handled('latest', HOUR), { fired: [latest], missed: 59, nextMs: latest + MINUTE_MS });
  });

  test('all fire, oldest first', () => {
    const all = Array.from({ length: 60 }, (_, index) => START + index * MINUTE_MS);
    assert.deepEqual(handled('all', HOUR), { fired: all, missed: 0, nextMs: latest + MINUTE_MS });
  });
});

describe('after a long time', () => {
  const count = MAX_CAUGHT_UP + 234;
  const lateMs = (count - 1) * MINUTE_MS + 1;

  test('the latest thousand of all times fire, oldest first, a hundred in a call', () => {
    const { fired, missed } = handled('all', lateMs);
    const first = START + 234 * MINUTE_MS;
    assert.deepEqual(
      fired,
      Array.from({ length: MAX_CAUGHT_UP }, (_, index) => first + index * MINUTE_MS),
    );
    assert.equal(missed, 234);
    assert.equal(planned('all', lateMs).times.length, 100);
  });

  test('nothing takes long, whatever the schedule', () => {
    const year = 365 * 86_400_000;
    for (const cron of ['* * * * * *', '* * * * *', '0 9 * * MON-FRI', '0 0 1 1 *'])
      for (const catchUp of CATCH_UPS) {
        const times = timesOf({
          schedule: { cron, timezone: 'Europe/London' },
          start: START,
          end: null,
          offset: 0,
        });
        const dueMs = times.next(START) ?? assert.fail();
        const tookMs = threadCpuSince();
        const { times: fired, missed } = plan({ times, catchUp, dueMs, nowMs: dueMs + year });
        assert.ok(tookMs() < 1000, `${cron} ${catchUp} took ${tookMs()} ms`);
        if (cron === '* * * * * *' && catchUp === 'latest')
          assert.equal(missed + fired.length, year / 1000 + 1);
      }
  });
});

test('each due time is handled once: it fires or is missed, in whatever steps time passes', () => {
  const step = fc.tuple(
    fc.constantFrom(...CATCH_UPS),
    fc.oneof(fc.nat(3000), fc.nat(40_000), fc.nat(3_000_000)),
  );
  const property = fc.property(fc.integer({ min: 1000, max: 90_000 }), fc.array(step), (periodMs, steps) => {
    const times = every(periodMs);
    const fired = new Set<number>();
    let [nowMs, dueMs, missed] = [START, START, 0];
    for (const [catchUp, passesMs] of steps) {
      nowMs += passesMs;
      if (dueMs > nowMs) continue;
      const each = plan({ times, catchUp, dueMs, nowMs });
      for (const time of each.times) {
        assert.ok(time >= dueMs && time <= nowMs && !fired.has(time));
        fired.add(time);
      }
      missed += each.missed;
      dueMs = each.nextMs ?? assert.fail();
    }
    assert.equal(fired.size + missed, (dueMs - START) / periodMs);
  });
  fc.assert(property, { numRuns: 500 });
});

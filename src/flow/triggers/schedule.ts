import { CronTimes } from './cron.ts';
import type { Times } from './plan.ts';
import { zoneCalled } from './zone.ts';

/** The largest due time. It has 13 digits, so that the event id `NAME@DUE` has at most 64 characters. */
export const MAX_TIME_MS = 9_999_999_999_999;

type Schedule = { cron: string; timezone: string } | { every: number } | { at: number };

/** When a trigger fires. Times are in ms since the Unix epoch, durations in ms. */
export interface Timing {
  schedule: Schedule;
  /** Times of the schedule before `start` or after `end` do not count. These limits apply before `offset` is added. */
  start: number;
  end: number | null;
  /** Each time of the schedule is moved by this many ms. With -60,000, the trigger fires a minute before each time. */
  offset: number;
}

/** Returns the due times of a trigger. Throws BadCron, and an Error if this host does not know the time zone. */
export function timesOf({ schedule, start, end, offset }: Timing): Times {
  const times = scheduled(schedule, start);
  const last = end ?? MAX_TIME_MS;
  return {
    next(afterMs) {
      const time = times.next(Math.max(afterMs - offset, start - 1));
      if (time === undefined || time > last || time + offset > MAX_TIME_MS) return undefined;
      return time + offset;
    },
    previous(beforeMs) {
      const time = times.previous(Math.min(beforeMs - offset, last + 1));
      return time === undefined || time < start ? undefined : time + offset;
    },
    count(afterMs, upToMs) {
      const after = Math.max(afterMs - offset, start - 1);
      const upTo = Math.min(upToMs - offset, last);
      return upTo > after ? times.count(after, upTo) : 0;
    },
  };
}

function scheduled(schedule: Schedule, start: number): Times {
  // A schedule with a single time (`at`) is treated as one whose period is so long that no second due time follows.
  if ('at' in schedule) return every(MAX_TIME_MS + 1, schedule.at);
  if ('every' in schedule) return every(schedule.every, start);
  const zone = zoneCalled(schedule.timezone);
  if (!zone) throw new Error(`there is no time zone ${schedule.timezone}`);
  return CronTimes.of(schedule.cron, zone);
}

function every(periodMs: number, start: number): Times {
  const countUpTo = (atMs: number) => Math.max(0, Math.floor((atMs - start) / periodMs) + 1);
  return {
    next: (afterMs) => start + countUpTo(afterMs) * periodMs,
    previous(beforeMs) {
      const count = countUpTo(beforeMs - 1);
      return count === 0 ? undefined : start + (count - 1) * periodMs;
    },
    count: (afterMs, upToMs) => countUpTo(upToMs) - countUpTo(afterMs),
  };
}

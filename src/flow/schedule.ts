import { CronTimes } from './cron.ts';
import type { Times } from './times.ts';
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
  return new Bounded(scheduled(schedule, start), start, end ?? MAX_TIME_MS, offset);
}

function scheduled(schedule: Schedule, start: number): Times {
  if ('at' in schedule) return new Once(schedule.at);
  if ('every' in schedule) return new Every(schedule.every, start);
  const zone = zoneCalled(schedule.timezone);
  if (!zone) throw new Error(`there is no time zone ${schedule.timezone}`);
  return CronTimes.of(schedule.cron, zone);
}

class Bounded implements Times {
  readonly #times: Times;
  readonly #start: number;
  readonly #end: number;
  readonly #offset: number;

  constructor(times: Times, start: number, end: number, offset: number) {
    this.#times = times;
    this.#start = start;
    this.#end = end;
    this.#offset = offset;
  }

  next(afterMs: number): number | undefined {
    const time = this.#times.next(Math.max(afterMs - this.#offset, this.#start - 1));
    if (time === undefined || time > this.#end || time + this.#offset > MAX_TIME_MS) return undefined;
    return time + this.#offset;
  }

  previous(beforeMs: number): number | undefined {
    const time = this.#times.previous(Math.min(beforeMs - this.#offset, this.#end + 1));
    return time === undefined || time < this.#start ? undefined : time + this.#offset;
  }

  count(afterMs: number, upToMs: number): number {
    const after = Math.max(afterMs - this.#offset, this.#start - 1);
    const upTo = Math.min(upToMs - this.#offset, this.#end);
    return upTo > after ? this.#times.count(after, upTo) : 0;
  }
}

class Every implements Times {
  readonly #periodMs: number;
  readonly #start: number;

  constructor(periodMs: number, start: number) {
    this.#periodMs = periodMs;
    this.#start = start;
  }

  next(afterMs: number): number {
    return this.#start + this.#countUpTo(afterMs) * this.#periodMs;
  }

  previous(beforeMs: number): number | undefined {
    const count = this.#countUpTo(beforeMs - 1);
    return count === 0 ? undefined : this.#start + (count - 1) * this.#periodMs;
  }

  count(afterMs: number, upToMs: number): number {
    return this.#countUpTo(upToMs) - this.#countUpTo(afterMs);
  }

  #countUpTo(atMs: number): number {
    return Math.max(0, Math.floor((atMs - this.#start) / this.#periodMs) + 1);
  }
}

class Once implements Times {
  readonly #atMs: number;

  constructor(atMs: number) {
    this.#atMs = atMs;
  }

  next(afterMs: number): number | undefined {
    return afterMs < this.#atMs ? this.#atMs : undefined;
  }

  previous(beforeMs: number): number | undefined {
    return beforeMs > this.#atMs ? this.#atMs : undefined;
  }

  count(afterMs: number, upToMs: number): number {
    return afterMs < this.#atMs && this.#atMs <= upToMs ? 1 : 0;
  }
}

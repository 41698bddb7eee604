import { Cron, CronPattern } from 'croner';
import { LRUCache } from 'lru-cache';
import { countBetween, type DayTimes } from './cron_count.ts';
import type { Times } from './times.ts';
import type { Zone } from './zone.ts';

const MAX_LENGTH = 256;
/**
 * An expression must match within this many years. It is eight because around 2100 there are eight years from one 29
 * February to the next. It is not more because finding out that an expression never matches already takes up to 14 ms.
 * An example that never matches is `0 0 1W * +SUN`: the weekday (Monday to Friday) nearest to the first day of the
 * month, if that weekday is a Sunday.
 */
const HORIZON_YEARS = 8;
/**
 * Maximum parsed expressions in the cache. It is low because croner takes 80 KB for each, and parsing one again takes
 * only 50 µs.
 */
const MAX_KEPT = 100;
const DAY_MS = 86_400_000;
const mode = '7-part';

/** Thrown for a text that the bus does not accept as a cron expression. `message` says why. */
export class BadCron extends Error {}

const kept = new LRUCache<string, CronTimes>({ max: MAX_KEPT });

/**
 * The times of a cron expression in a time zone. Daylight saving is treated as croner documents it.
 *
 * In a *fixed-time* expression, second, minute and hour have one value each: `30 2 * * *` means 2:30:00. croner
 * computes the times of such an expression in the time zone. For other expressions this would be too slow: croner would
 * try each second of an hour that daylight saving skips, in each year. For `* * 2 * 3 SUNL` in Berlin that takes 80 s,
 * because the clocks skip that hour every March.
 *
 * So for all other expressions croner computes local times, without a zone. This class converts them with the zone's
 * offset (local time minus UTC). Where the offset changes, it computes again from there.
 */
export class CronTimes implements Times {
  readonly #expression: string;
  readonly #zone: Zone;
  readonly #pattern: Pick<CronPattern, 'second' | 'minute' | 'hour'>;
  readonly #isFixedTime: boolean;
  /**
   * The croner object of the last call, kept because the next call is usually about the same `year`. `cron` finds only
   * times that are at most eight years from `year`. For a fixed-time expression (second, minute and hour have one value
   * each), it computes in the time zone. For others that would be too slow, so it computes in local time, without a
   * zone.
   */
  #around: { year: number; cron: Cron } | undefined;

  /** Parses an expression. Throws BadCron. */
  static of(text: string, zone: Zone): CronTimes {
    const key = `${zone.name} ${text}`;
    const times = kept.get(key) ?? new CronTimes(withSeconds(text), zone);
    kept.set(key, times);
    return times;
  }

  private constructor(expression: string, zone: Zone) {
    this.#expression = expression;
    this.#zone = zone;
    const { second, minute, hour, isFixedTime } = patternOf(expression);
    this.#pattern = { second, minute, hour };
    this.#isFixedTime = isFixedTime && !zone.isUtc;
  }

  next(afterMs: number): number | undefined {
    const cron = this.#cronAround(afterMs);
    if (this.#isFixedTime) return cron.nextRun(new Date(afterMs))?.getTime();
    for (let fromMs = afterMs + 1; ; ) {
      const offsetMs = this.#zone.offsetMs(fromMs);
      const next = cron.nextRun(new Date(fromMs - 1 + offsetMs));
      if (!next) return undefined;
      const atMs = next.getTime() - offsetMs;
      const changeMs = this.#changeBefore(fromMs, atMs, offsetMs);
      if (changeMs === undefined) return atMs;
      fromMs = changeMs;
    }
  }

  previous(beforeMs: number): number | undefined {
    const cron = this.#cronAround(beforeMs);
    if (this.#isFixedTime) return cron.previousRuns(1, new Date(beforeMs))[0]?.getTime();
    for (let toMs = beforeMs - 1; ; ) {
      const offsetMs = this.#zone.offsetMs(toMs);
      const [previous] = cron.previousRuns(1, new Date(toMs + 1 + offsetMs));
      if (!previous) return undefined;
      const atMs = previous.getTime() - offsetMs;
      const changeMs = this.#changeAfter(atMs, toMs, offsetMs);
      if (changeMs === undefined) return atMs;
      toMs = changeMs - 1;
    }
  }

  count(afterMs: number, upToMs: number): number {
    if (!this.#isFixedTime) return countBetween(this.#dayTimes(), this.#zone, afterMs, upToMs);
    let count = 0;
    // A fixed-time expression (second, minute and hour have one value each) has at most one time a day. So its times
    // are few enough to be counted one by one.
    for (let at = this.next(afterMs); at !== undefined && at <= upToMs; at = this.next(at)) count++;
    return count;
  }

  #cronAround(nearMs: number): Cron {
    const year = new Date(nearMs).getUTCFullYear();
    if (this.#around?.year === year) return this.#around.cron;
    const text = `${this.#expression} ${year - HORIZON_YEARS}-${year + HORIZON_YEARS}`;
    const cron = new Cron(
      text,
      this.#isFixedTime ? { timezone: this.#zone.name, mode } : { utcOffset: 0, mode },
    );
    this.#around = { year, cron };
    return cron;
  }

  #dayTimes(): DayTimes {
    const { second, minute, hour } = this.#pattern;
    const [, , , ...days] = this.#expression.split(' ');
    const cron = new Cron(`0 0 0 ${days.join(' ')} *`, { utcOffset: 0, mode });
    return {
      seconds: placesIn(second),
      minutes: placesIn(minute),
      hours: placesIn(hour),
      isDay: (date) => cron.match(date),
    };
  }

  /**
   * Checks `atMs`, the next time from `fromMs` on. croner has computed it as if the zone's offset stayed `offsetMs`.
   * Returns undefined if `atMs` is right. Otherwise returns when the offset changes; the caller computes again from
   * there.
   *
   * The offset must be `offsetMs` at three times: at `atMs`, a day after `fromMs` and a day before `atMs`. Comparing
   * only the offset at `atMs` is not enough. Example: for `0,30 2 25 10 *` in Berlin, from 2:45 on 25 October 2026,
   * croner returns 25 October 2027, with the same offset. But the clocks go back at 3:00, so 2:00 comes again in a
   * quarter of an hour.
   *
   * A change in between that is undone, as summer time is, does no harm: the local time stays in the range from
   * `fromMs` to `atMs`, in which no local time matches.
   */
  #changeBefore(fromMs: number, atMs: number, offsetMs: number): number | undefined {
    for (const untilMs of [Math.min(fromMs + DAY_MS, atMs), Math.max(atMs - DAY_MS, fromMs), atMs])
      if (this.#zone.offsetMs(untilMs) !== offsetMs) return this.#zone.firstOther(fromMs, untilMs);
    return undefined;
  }

  /**
   * Checks `atMs`. croner has computed it as the last time up to `toMs`, as if the zone's offset had always been
   * `offsetMs`. Returns undefined if `atMs` is right. Otherwise returns when the offset changed to `offsetMs`; the
   * caller computes again from there. `#changeBefore` explains which offsets are compared.
   */
  #changeAfter(atMs: number, toMs: number, offsetMs: number): number | undefined {
    for (const sinceMs of [Math.max(toMs - DAY_MS, atMs), Math.min(atMs + DAY_MS, toMs), atMs])
      if (this.#zone.offsetMs(sinceMs) !== offsetMs) return this.#zone.firstSame(sinceMs, toMs);
    return undefined;
  }
}

/** Returns the expression with six fields: adds the second 0 if it has five. Throws BadCron. */
function withSeconds(text: string): string {
  if (text.length > MAX_LENGTH) throw new BadCron(`must have at most ${MAX_LENGTH} characters`);
  const fields = text.trim().split(/\s+/);
  if (fields.length !== 5 && fields.length !== 6)
    throw new BadCron(
      'must have five fields (minute, hour, day, month, weekday), or six with the second in front',
    );
  return (fields.length === 5 ? ['0', ...fields] : fields).join(' ');
}

/** Parses an expression with six fields. Throws BadCron. */
function patternOf(expression: string): CronPattern {
  try {
    return new CronPattern(`${expression} *`, undefined, { mode });
  } catch (cause) {
    const reason = (cause as Error).message.replace(/^CronPattern: (Syntax error, )?/, '');
    throw new BadCron(`is not a cron expression: ${reason}`, { cause });
  }
}

function placesIn(flags: readonly number[]): number[] {
  return flags.flatMap((flag, place) => (flag ? place : []));
}

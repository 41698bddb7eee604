import { Cron, CronPattern } from 'croner';
import { LRUCache } from 'lru-cache';
import { countBetween, type DayTimes } from './cron_count.ts';
import type { Times } from './plan.ts';
import { DAY_MS, type Zone } from './zone.ts';

const MAX_LENGTH = 256;
/**
 * An expression must match within this many years. Fewer would refuse some expressions for 29 February, which can be
 * eight years away (2096 to 2104). More would take too long: a search of eight years takes up to 14 ms.
 */
const HORIZON_YEARS = 8;
/** Maximum parsed expressions in the cache: croner takes 80 KB for each, and parsing one again takes only 50 µs. */
const MAX_KEPT = 100;
const mode = '7-part';

/** Thrown for a cron expression that the bus does not accept. `message` says why. */
export class BadCron extends Error {}

const kept = new LRUCache<string, CronTimes>({ max: MAX_KEPT });

/**
 * The times of a cron expression in a time zone. When the clocks go forward, some local times are skipped. When they go
 * back, some occur twice.
 * - A *fixed-time* expression has one second, one minute and one hour, such as `30 2 * * *` (2:30:00). If this time
 *   occurs twice, it fires only at the first. If this time is skipped, it fires when the clocks go forward.
 * - Any other expression fires both times at a local time that occurs twice, and not at a skipped one.
 *
 * This class asks the library croner for local times, without a zone, and converts them. With a zone, croner is too
 * slow (80 s for `* * 2 * 3 SUNL` in Berlin), and misses some times when the clocks change.
 */
export class CronTimes implements Times {
  readonly #expression: string;
  readonly #zone: Zone;
  readonly #pattern: Pick<CronPattern, 'second' | 'minute' | 'hour'>;
  readonly #isFixedTime: boolean;
  /**
   * The croner object of the last call, kept because the next call probably needs it again. It finds times in the eight
   * years before and after `year`. It takes and returns local times, written as if they were UTC.
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
    if (this.#isFixedTime) return this.#nextFixed(cron, afterMs);
    for (let fromMs = afterMs + 1; ; ) {
      const offsetMs = this.#zone.offsetMs(fromMs);
      const next = cron.nextRun(new Date(fromMs - 1 + offsetMs));
      if (!next) return undefined;
      const atMs = next.getTime() - offsetMs;
      const otherMs = this.#otherOffset(fromMs, atMs, offsetMs);
      if (otherMs === undefined) return atMs;
      fromMs = this.#zone.endOfOffset(fromMs, otherMs);
    }
  }

  previous(beforeMs: number): number | undefined {
    const cron = this.#cronAround(beforeMs);
    if (this.#isFixedTime) return this.#previousFixed(cron, beforeMs);
    for (let toMs = beforeMs - 1; ; ) {
      const offsetMs = this.#zone.offsetMs(toMs);
      const [previous] = cron.previousRuns(1, new Date(toMs + 1 + offsetMs));
      if (!previous) return undefined;
      const atMs = previous.getTime() - offsetMs;
      const otherMs = this.#otherOffset(toMs, atMs, offsetMs);
      if (otherMs === undefined) return atMs;
      toMs = this.#zone.startOfOffset(otherMs, toMs) - 1;
    }
  }

  count(afterMs: number, upToMs: number): number {
    if (!this.#isFixedTime) return countBetween(this.#dayTimes(), this.#zone, afterMs, upToMs);
    let count = 0;
    // A fixed-time expression is due at most once a day, so finding its times one by one is quick enough.
    for (let at = this.next(afterMs); at !== undefined && at <= upToMs; at = this.next(at)) count++;
    return count;
  }

  #nextFixed(cron: Cron, afterMs: number): number | undefined {
    for (let local = new Date(afterMs + this.#zone.offsetMs(afterMs)); ; ) {
      const next = cron.nextRun(local);
      if (!next) return undefined;
      const atMs = this.#zone.firstAt(next.getTime());
      // When the clocks go back, a local time occurs twice, and `atMs` is the first of the two moments. If `atMs` has
      // passed, the search goes on to the next local time: a fixed-time expression does not fire at the second moment.
      if (atMs > afterMs) return atMs;
      local = next;
    }
  }

  #previousFixed(cron: Cron, beforeMs: number): number | undefined {
    // When the clocks go back from 3:00 to 2:00, the moment 2:50 before the change is earlier than 2:10 after it. So an
    // earlier due time may have a later local time. To miss none, the search in local time begins a day after
    // `beforeMs`.
    for (let local = new Date(beforeMs + this.#zone.offsetMs(beforeMs) + DAY_MS); ; ) {
      const [previous] = cron.previousRuns(1, local);
      if (!previous) return undefined;
      const atMs = this.#zone.firstAt(previous.getTime());
      if (atMs < beforeMs) return atMs;
      local = previous;
    }
  }

  #cronAround(nearMs: number): Cron {
    const year = new Date(nearMs).getUTCFullYear();
    if (this.#around?.year === year) return this.#around.cron;
    const text = `${this.#expression} ${year - HORIZON_YEARS}-${year + HORIZON_YEARS}`;
    const cron = new Cron(text, { utcOffset: 0, mode });
    this.#around = { year, cron };
    return cron;
  }

  #dayTimes(): DayTimes {
    const { second, minute, hour } = this.#pattern;
    const [, , , ...days] = this.#expression.split(' ');
    const cron = new Cron(`0 0 0 ${days.join(' ')} *`, { utcOffset: 0, mode });
    return {
      seconds: indexesIn(second),
      minutes: indexesIn(minute),
      hours: indexesIn(hour),
      isDay: (date) => cron.match(date),
    };
  }

  /**
   * Checks `atMs`, which croner has found in a search from `fromMs`, forward or backward. croner searches as if the
   * zone always had the offset `offsetMs`, so `atMs` may be wrong if the clocks change between `fromMs` and `atMs`. In
   * this case, returns a time between the two at which the zone has another offset: the caller then searches again from
   * the change of the clocks. Returns undefined if `atMs` is right.
   */
  #otherOffset(fromMs: number, atMs: number, offsetMs: number): number | undefined {
    const dayMs = Math.sign(atMs - fromMs) * DAY_MS;
    const [earliest, latest] = [Math.min(fromMs, atMs), Math.max(fromMs, atMs)];
    const checked = [
      // Checks the offset one day into the search. If the clocks go back in this day, an hour occurs twice, and croner
      // misses the second time. Example: in Berlin, the hour from 2:00 to 3:00 occurs twice on 25 October 2026. At the
      // first 2:45, the next time of `0,30 2 25 10 *` is the second 2:00, in 15 minutes. But croner finds 2:00 in 2027.
      fromMs + dayMs,
      // Checks the offset one day before the end of the search. If the clocks go back in this day, the local time that
      // croner found may occur twice. `atMs` may then be the farther of the two moments, but the search needs the
      // nearer.
      atMs - dayMs,
      // Checks the offset at `atMs`. If it is not `offsetMs`, the local time at `atMs` does not match the expression.
      atMs,
    ];
    return checked
      .map((ms) => Math.min(Math.max(ms, earliest), latest))
      .find((ms) => this.#zone.offsetMs(ms) !== offsetMs);
  }
}

/** Adds the second 0 to an expression that has five fields. Throws BadCron. */
function withSeconds(text: string): string {
  if (text.length > MAX_LENGTH) throw new BadCron(`must have at most ${MAX_LENGTH} characters`);
  const fields = text.trim().split(/\s+/);
  if (fields.length !== 5 && fields.length !== 6)
    throw new BadCron(
      'must have five fields (minute, hour, day, month, weekday), or six with the second in front',
    );
  return (fields.length === 5 ? ['0', ...fields] : fields).join(' ');
}

/** Parses an expression with six fields. croner needs a seventh field, the year: `*` means any year. Throws BadCron. */
function patternOf(expression: string): CronPattern {
  try {
    return new CronPattern(`${expression} *`, undefined, { mode });
  } catch (cause) {
    const reason = (cause as Error).message.replace(/^CronPattern: (Syntax error, )?/, '');
    throw new BadCron(`is not a cron expression: ${reason}`, { cause });
  }
}

function indexesIn(flags: readonly number[]): number[] {
  return flags.flatMap((flag, index) => (flag ? index : []));
}

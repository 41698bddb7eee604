import { hash } from 'node:crypto';
import { clock } from '../clock.ts';
import { isPassing } from '../errors.ts';
import { type Log, reasonOf } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import { replies } from '../store/replies.ts';

/** Maximum failures per address and minute. It is high because one service with a wrong secret causes many failures. */
export const MAX_FAILURES = 100;
const WINDOW_MS = 60_000;
/**
 * Number of failure counters for each minute. The SHA-256 of an address selects its counter. The counters of a minute
 * have 128 KB, and take up to 320 KB of Redis's memory, because Redis reserves more when a value grows.
 */
const BUCKETS = 65_536;
const COUNT_TYPE = 'u16';
const MAX_COUNTED = 65_535;

/**
 * Counts failed authentications of all processes, by address and minute, in Redis. Two addresses share a counter with a
 * chance of 1 in 65,536. So code that uses this class must accept correct credentials, however high the count is.
 */
export class FailedLogins {
  readonly #control: Partition;
  readonly #log: Log;
  /**
   * The failures of this minute, for each counter, as this process knows them. Failures that other processes have just
   * counted in Redis may be missing.
   */
  readonly #counts = new Uint16Array(BUCKETS);
  #minute = 0;
  #isReported = false;

  /** `log` gets one warning if Redis refuses the commands for counting. */
  constructor(control: Partition, log: Log) {
    this.#control = control;
    this.#log = log;
  }

  /**
   * Counts a failure of the address `source`. Resolves with the number of its failures this minute. Those over
   * MAX_FAILURES are counted only in this process, without a call to Redis. Never throws.
   */
  async count(source: string): Promise<number> {
    const minute = Math.floor(clock.wallMs() / WINDOW_MS);
    if (minute !== this.#minute) this.#counts.fill(0);
    this.#minute = minute;
    const bucket = Number.parseInt(hash('sha256', source).slice(0, 4), 16);
    const here = this.#raise(bucket, (this.#counts[bucket] ?? 0) + 1);
    if (here > MAX_FAILURES) return here;
    const everywhere = await this.#countEverywhere(String(minute), bucket);
    return minute === this.#minute ? this.#raise(bucket, everywhere) : everywhere;
  }

  /** Returns how much of the current minute is left. */
  leftMs(): number {
    return WINDOW_MS - (clock.wallMs() % WINDOW_MS);
  }

  #raise(bucket: number, count: number): number {
    const known = Math.min(Math.max(count, this.#counts[bucket] ?? 0), MAX_COUNTED);
    this.#counts[bucket] = known;
    return known;
  }

  async #countEverywhere(minute: string, bucket: number): Promise<number> {
    try {
      return await this.#control.command(async (redis, keys) => {
        const key = keys.failed_logins(minute);
        const count = redis
          .pipeline()
          .bitfield(key, 'OVERFLOW', 'SAT', 'INCRBY', COUNT_TYPE, `#${bucket}`, 1)
          .pexpire(key, 2 * WINDOW_MS);
        const [[counted]] = (await replies(count)) as [number[], number];
        return Number(counted);
      });
    } catch (error) {
      if (!isPassing(error)) this.#report(error);
      return 0;
    }
  }

  #report(error: unknown): void {
    if (this.#isReported) return;
    this.#isReported = true;
    this.#log.warn(
      { reason: reasonOf(error) },
      'failed authentications cannot be counted over all processes, only by each; ' +
        'grant the user of Redis +bitfield +pexpire, as the ACL in docs/operating.md does',
    );
  }
}

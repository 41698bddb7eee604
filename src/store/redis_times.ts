import { clock } from '../clock.ts';
import { sharing } from '../sharing.ts';
import type { Partition } from './partition.ts';

/** Interval at which the clock of this host is compared with Redis's clock, as long as callers ask for the time. */
const COMPARE_EVERY_MS = 10_000;
const RETRY_MS = 1000;
/**
 * If the clock of this host jumps by more than this, it is compared with Redis's clock before it is used again. A clock
 * jumps when somebody sets it, or after the host has slept.
 */
const MAX_STEP_MS = 500;

/** Tells the time by Redis's clock without asking Redis each time. Each partition can have a Redis of its own. */
export class RedisTimes {
  readonly #times = new WeakMap<Partition, RedisTime>();

  /**
   * Returns the time in whole ms by the clock of a partition's Redis. Returns a promise of the time if Redis must be
   * asked first: at the start, after a reconnection, and after the clock of this host was set. The promise rejects with
   * StorageUnavailable if Redis is away.
   */
  nowMs(partition: Partition): number | Promise<number> {
    const known = this.#times.get(partition);
    const time = known ?? new RedisTime(partition);
    if (!known) this.#times.set(partition, time);
    return time.nowMs();
  }
}

class RedisTime {
  readonly #partition: Partition;
  /**
   * The value of `Partition.connections` when the clocks were last compared. If it has changed since, the process may
   * now use another Redis.
   */
  #connection: number | undefined;
  /** What is added to the clock of this host to get the time of Redis's clock. */
  #correctionMs = 0;
  /**
   * The clock of this host minus its monotonic clock. This difference changes if somebody sets the clock, or after the
   * host has slept.
   */
  #hostMs = 0;
  #compareAtMs = 0;
  readonly #compared = sharing(() => this.#compare());

  constructor(partition: Partition) {
    this.#partition = partition;
  }

  nowMs(): number | Promise<number> {
    const isStep = Math.abs(hostMs() - this.#hostMs) > MAX_STEP_MS;
    if (isStep || this.#connection !== this.#partition.connections)
      return this.#compared().then(() => this.#corrected());
    // Errors are ignored: the known correction stays right as long as no clock is set, and a later call compares again.
    if (clock.monotonicMs() >= this.#compareAtMs) this.#compared().catch(() => {});
    return this.#corrected();
  }

  #corrected(): number {
    return Math.floor(clock.wallMs() + this.#correctionMs);
  }

  /**
   * Compares the clocks. Redis reads its clock at an unknown moment between the request and the reply. So the
   * correction is only known to lie between two bounds, `leastMs` and `mostMs`. If the present correction lies between
   * them, it is kept: a lower correction could give a later event an earlier time. Otherwise the nearer bound becomes
   * the correction.
   */
  async #compare(): Promise<void> {
    this.#compareAtMs = clock.monotonicMs() + RETRY_MS;
    const connection = this.#partition.connections;
    const [host, beganMs] = [hostMs(), clock.monotonicMs()];
    const [seconds, micros] = await this.#partition.command((redis) => redis.time());
    const redisMs = Number(seconds) * 1000 + Number(micros) / 1000;
    const [leastMs, mostMs] = [redisMs - (host + clock.monotonicMs()), redisMs - (host + beganMs)];
    this.#correctionMs = Math.min(Math.max(this.#correctionMs, leastMs), mostMs);
    this.#hostMs = host;
    this.#connection = connection;
    this.#compareAtMs = clock.monotonicMs() + COMPARE_EVERY_MS;
  }
}

function hostMs(): number {
  return clock.wallMs() - clock.monotonicMs();
}

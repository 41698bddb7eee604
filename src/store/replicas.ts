import type { Redis } from 'ioredis';
import { StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';

/**
 * Maximum time that replicas get to confirm. Less than the time after which a silent connection is closed.
 */
const WAIT_MS = 1000;

/** Waits until replicas have what was written on a connection. Nothing else on the connection goes on meanwhile. */
export class Replicas {
  readonly #min: number;
  readonly #log: Log | undefined;
  #tooFew = false;

  constructor(min: number, log?: Log) {
    this.#min = min;
    this.#log = log;
  }

  /**
   * Resolves with the reply to `sent`, the last command of the connection, when the minimum of replicas
   * has all that Redis had written until then. So the reply to a repeated publish, which writes nothing,
   * also waits until the first one is on the replicas. Throws the error of `sent`, or of `confirm`: then
   * the command was run, but replicas may lack what it wrote.
   */
  async have<T>(redis: Redis, sent: Promise<T>): Promise<T> {
    // WAIT is sent before the command is answered, so it costs no second round trip.
    const [reply] = await Promise.all([sent, this.confirm(redis)]);
    return reply;
  }

  /**
   * Resolves when the minimum of replicas has all that was written before. Throws StorageUnavailable, or an
   * error of Redis.
   */
  async confirm(redis: Redis): Promise<void> {
    const count = await redis.wait(this.#min, WAIT_MS);
    if (this.#tooFew !== count < this.#min) this.#tell(count);
    if (count >= this.#min) return;
    const cause = new Error(`${count} of ${this.#min} replicas have confirmed it within ${WAIT_MS} ms`);
    throw new StorageUnavailable(cause, 'Too few replicas of Redis have confirmed it');
  }

  #tell(count: number): void {
    this.#tooFew = count < this.#min;
    const about = { replicas: count, ROUTEMASTER_MIN_REPLICAS: this.#min };
    if (this.#tooFew)
      this.#log?.warn(about, 'too few replicas have what is published; publishing is refused');
    else this.#log?.info(about, 'enough replicas have what is published');
  }
}

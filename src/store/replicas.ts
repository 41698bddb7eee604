import type { Redis } from 'ioredis';
import { StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Master } from './master.ts';

/**
 * Maximum time that WAIT waits for replicas. It is less than the 5 s after which connection.ts closes a connection that
 * gives no reply.
 */
const WAIT_MS = 1000;

/**
 * The state of WAIT, the command that waits for replicas, on one connection. All partitions on the connection share it.
 */
interface Waits {
  /** The result of the WAIT that will be sent next. This WAIT confirms all commands that are sent before it. */
  next: Promise<number> | undefined;
  /** Resolves when the WAIT that was sent last has ended, even if it failed. */
  ended: Promise<unknown>;
  tooFew: boolean;
}

const waitsOn = new WeakMap<Redis, Waits>();

/**
 * Resolves with the number of replicas of this Redis that are online. Replicas that still load its data do not count.
 */
export async function countReplicas(redis: Redis): Promise<number> {
  const info = await redis.info('replication');
  return [...info.matchAll(/^slave\d+:.*state=online/gm)].length;
}

/** Waits until `min` replicas have what was written on a connection. Redis blocks the connection meanwhile. */
export class Replicas {
  readonly #min: number;
  readonly #master: Pick<Master, 'name' | 'address'>;
  readonly #log: Log | undefined;

  constructor(min: number, master: Pick<Master, 'name' | 'address'>, log?: Log) {
    this.#min = min;
    this.#master = master;
    this.#log = log;
  }

  /**
   * Resolves with the reply to `sent`, the last command on this connection, when enough replicas have all that Redis
   * had written up to this command. Writes of other connections count too: a repeated publish writes nothing itself,
   * but waits for what the first publish wrote. Throws the error of `sent` if the command failed. If too few replicas
   * confirm, throws StorageUnavailable, but Redis has run the command.
   */
  async resultOnceReplicated<T>(redis: Redis, sent: Promise<T>): Promise<T> {
    // To save a round trip, WAIT is sent before the reply to `sent` arrives. It is held back only while an earlier WAIT
    // is running.
    const [reply] = await Promise.all([sent, this.confirm(redis)]);
    return reply;
  }

  /**
   * Resolves when enough replicas have everything that was written on the connection before. Throws StorageUnavailable
   * if too few replicas confirm it within WAIT_MS, and any error of Redis unchanged.
   */
  async confirm(redis: Redis): Promise<void> {
    const waits = waitsFor(redis);
    const count = await this.#wait(redis, waits);
    if (waits.tooFew !== count < this.#min) this.#tell(waits, count);
    if (count >= this.#min) return;
    const cause = new Error(`${count} of ${this.#min} replicas have confirmed it within ${WAIT_MS} ms`);
    const { name, address } = this.#master;
    throw new StorageUnavailable(cause, `Too few replicas of ${name} have confirmed it`, address ?? name);
  }

  /**
   * Waits until the previous WAIT has ended. Then sends one WAIT for all callers that came meanwhile. If each caller
   * sent a WAIT of its own, Redis would run them one after the other: with 16 partitions and no replica, publishes took
   * half a minute.
   */
  #wait(redis: Redis, waits: Waits): Promise<number> {
    waits.next ??= waits.ended.then(() => {
      waits.next = undefined;
      const count = redis.wait(this.#min, WAIT_MS);
      waits.ended = count.catch(() => {});
      return count;
    });
    return waits.next;
  }

  #tell(waits: Waits, count: number): void {
    waits.tooFew = count < this.#min;
    const about = { node: this.#master.address, replicas: count, ROUTEMASTER_MIN_REPLICAS: this.#min };
    if (waits.tooFew)
      this.#log?.warn(about, 'too few replicas have what is published; publishing is refused');
    else this.#log?.info(about, 'enough replicas have what is published');
  }
}

function waitsFor(redis: Redis): Waits {
  const known = waitsOn.get(redis);
  if (known) return known;
  const waits: Waits = { next: undefined, ended: Promise.resolve(), tooFew: false };
  waitsOn.set(redis, waits);
  return waits;
}

import { sleep } from '../clock.ts';
import { StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import { infoField } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { sumOf } from '../sum.ts';
import { policyProblem } from './schema.ts';

const LOST =
  'Redis has lost the data of the bus, as after a restart with an empty disk. Stop the bus and restore a backup of ' +
  'Redis, or start any process of the bus again to go on without the data.';

/**
 * Maximum time for which requests wait to learn whether Redis still has the data of the bus. It is short, because one
 * of several Redises may hang.
 */
const PATIENCE_MS = 100;

/**
 * Watches whether the Redis of a partition is still what it was at the start. After a restart, a failover or a change
 * by an operator, events could be lost without any error.
 */
export class StorageWatch {
  readonly #partition: Partition;
  readonly #log: Log;
  #told: string | undefined;

  constructor(partition: Partition, log: Log) {
    this.#partition = partition;
    this.#log = log;
  }

  /** Logs an error, once, if Redis would delete events, or has lost the data of the partition. */
  async look(): Promise<void> {
    const { master } = this.#partition;
    const [info, schema] = await this.#partition.command((redis, keys) =>
      Promise.all([redis.info('memory'), redis.get(keys.schema())]),
    );
    const problem = schema === null ? LOST : policyProblem(infoField(info, 'maxmemory_policy'));
    if (problem !== undefined && problem !== this.#told) this.#log.error({ redis: master.name }, problem);
    this.#told = problem;
  }
}

/**
 * Refuses requests after a Redis has come back without the data of the bus, until a starting process prepares it like a
 * new Redis. Otherwise the bus would accept events for no subscriber, and tell clients that they do not exist.
 */
export class LossGuard {
  readonly #buses: readonly Partitions[];
  readonly #log: Log;
  #connections = 0;
  #isLost = false;
  #looking: Promise<unknown> | undefined;

  /**
   * Each connection of this process has its own Partitions object. `buses` has them all, because any of the connections
   * may be the first that comes back.
   */
  constructor(buses: readonly Partitions[], log: Log) {
    this.#buses = buses;
    this.#log = log;
  }

  /**
   * Returns undefined, unless this process has connected to Redis since the last call, or the data was lost. Then
   * returns a promise, which rejects with StorageUnavailable if the data is lost.
   */
  check(): Promise<void> | undefined {
    const connections = sumOf(this.#buses.map(({ control }) => control.connections));
    if (!this.#looking && (connections !== this.#connections || this.#isLost)) {
      this.#connections = connections;
      this.#looking = Promise.race([this.#look(), sleep(PATIENCE_MS)]).finally(() => {
        this.#looking = undefined;
      });
    }
    return this.#looking?.then(() => {
      if (this.#isLost) throw new StorageUnavailable(undefined, 'Redis has lost the data of the bus');
    });
  }

  async #look(): Promise<void> {
    const asked = this.#buses.flatMap(({ all }) =>
      all.map((each) => each.command((redis, keys) => redis.exists(keys.schema()))),
    );
    // A Redis that does not answer is checked later, when the process has connected to it again.
    const found = (await Promise.allSettled(asked)).flatMap((each) =>
      each.status === 'fulfilled' ? [each.value] : [],
    );
    if (found.length === 0) return;
    const isLost = found.includes(0);
    if (isLost && !this.#isLost) this.#log.error(LOST);
    this.#isLost = isLost;
  }
}

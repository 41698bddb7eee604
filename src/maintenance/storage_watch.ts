import { clock, sleep } from '../clock.ts';
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
/** Time after which requests cause another look, without waiting for it: FLUSHALL, for example, cuts no connection. */
const FRESH_MS = 1000;

/**
 * Watches whether Redis is still what it was at the start. After a restart, a failover or a change by an operator,
 * events could be lost without any error.
 */
export class StorageWatch {
  readonly #buses: readonly Partitions[];
  readonly #log: Log;
  #connections = 0;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  /** What is wrong with each partition that answered when it was looked at last. */
  readonly #problems = new Map<Partition, string | undefined>();
  #looking: Promise<unknown> | undefined;
  #isAwaited = false;

  /**
   * Each connection of this process has its own Partitions object. `buses` has them all, because any of the connections
   * may be the first that comes back.
   */
  constructor(buses: readonly Partitions[], log: Log) {
    this.#buses = buses;
    this.#log = log;
  }

  /**
   * Refuses requests after Redis has lost the data of the bus, until a starting process prepares it like a new Redis.
   * Otherwise the bus would accept events for no subscriber, and tell clients that they do not exist. Returns undefined,
   * unless this process has connected to Redis since the last call, or the data was lost. Then returns a promise, which
   * rejects with StorageUnavailable if the data is lost.
   */
  check(): Promise<void> | undefined {
    const connections = sumOf(this.#buses.map(({ control }) => control.connections));
    const mustWait = connections !== this.#connections || this.#isLost;
    if (!this.#looking && (mustWait || clock.monotonicMs() - this.#lookedAtMs > FRESH_MS)) {
      this.#connections = connections;
      this.#isAwaited = mustWait;
      this.#looking = Promise.race([this.look(), sleep(PATIENCE_MS)]).finally(() => {
        this.#looking = undefined;
      });
    }
    if (!mustWait && !this.#isAwaited) return undefined;
    return this.#looking?.then(() => {
      if (this.#isLost) throw new StorageUnavailable(undefined, 'Redis has lost the data of the bus');
      // A look that began before the last connection says nothing about it.
      return connections === this.#connections ? undefined : this.check();
    });
  }

  /**
   * Looks at every partition. Logs an error if Redis has lost the data of a partition, or if its `maxmemory-policy` lets
   * it delete events. Does not log again what is known of another partition, or of the look before. What a partition
   * answers counts at once, so one that hangs does not hold up the others. Never rejects.
   */
  async look(): Promise<void> {
    this.#lookedAtMs = clock.monotonicMs();
    await Promise.all(this.#buses.flatMap(({ all }) => all.map((each) => this.#lookAt(each))));
  }

  async #lookAt(partition: Partition): Promise<void> {
    try {
      const [info, schema] = await partition.command((redis, keys) =>
        Promise.all([redis.info('memory'), redis.exists(keys.schema())]),
      );
      const problem = schema === 0 ? LOST : policyProblem(infoField(info, 'maxmemory_policy'));
      const isKnown = [...this.#problems.values()].includes(problem);
      if (problem !== undefined && !isKnown) this.#log.error({ redis: partition.master.name }, problem);
      this.#problems.set(partition, problem);
    } catch {
      // Nothing is known of a Redis that does not answer, or whose ACL forbids this, until a later look. The job
      // `autodrop` needs the same command, and logs what failed.
      this.#problems.delete(partition);
    }
  }

  get #isLost(): boolean {
    return [...this.#problems.values()].includes(LOST);
  }
}

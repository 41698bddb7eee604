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
  #problem: string | undefined;
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
    const mustWait = connections !== this.#connections || this.#problem === LOST;
    if (!this.#looking && (mustWait || clock.monotonicMs() - this.#lookedAtMs > FRESH_MS)) {
      this.#connections = connections;
      this.#isAwaited = mustWait;
      this.#looking = Promise.race([this.look(), sleep(PATIENCE_MS)]).finally(() => {
        this.#looking = undefined;
      });
    }
    if (!this.#isAwaited) return undefined;
    return this.#looking?.then(() => {
      if (this.#problem === LOST)
        throw new StorageUnavailable(undefined, 'Redis has lost the data of the bus');
    });
  }

  /** Logs an error, once, if a Redis would delete events, or has lost the data of a partition. Never rejects. */
  async look(): Promise<void> {
    this.#lookedAtMs = clock.monotonicMs();
    const looks = await Promise.allSettled(this.#buses.flatMap(({ all }) => all.map(lookAt)));
    // A Redis that does not answer is looked at when the process has connected to it again.
    const answered = looks.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    if (answered.length === 0) return;
    const { redis, problem } =
      answered.find((each) => each.problem === LOST) ?? answered.find((each) => each.problem) ?? {};
    if (problem !== undefined && problem !== this.#problem) this.#log.error({ redis }, problem);
    this.#problem = problem;
  }
}

/** Returns the name of a partition's Redis, and what is wrong with it. */
async function lookAt(partition: Partition): Promise<{ redis?: string; problem?: string | undefined }> {
  const [info, schema] = await partition.command((redis, keys) =>
    Promise.all([redis.info('memory'), redis.exists(keys.schema())]),
  );
  const problem = schema === 0 ? LOST : policyProblem(infoField(info, 'maxmemory_policy'));
  return { redis: partition.master.name, problem };
}

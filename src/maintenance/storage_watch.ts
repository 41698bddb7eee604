import { clock, sleep } from '../clock.ts';
import { StorageLost, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import { policyProblem } from './schema.ts';

const ADVICE =
  'Stop the bus and restore a backup of Redis, or start any process of the bus again, without ' +
  'ROUTEMASTER_REQUIRE_DATA, to go on without the data.';
const LOST = `Redis has lost the data of the bus, as after a restart with an empty disk. ${ADVICE}`;
const LACKING =
  'Redis does not have the data of the bus, which ROUTEMASTER_REQUIRE_DATA requires. Correct ROUTEMASTER_REDIS_URL ' +
  `or ROUTEMASTER_REDIS_PREFIX if one of them is wrong. If both are right, the data is lost. ${ADVICE}`;

/** Throws StorageUnavailable if a partition has no data. Also logs what to do, at most once a minute (see log.ts). */
export async function requireData(partitions: readonly Partition[], log: Log): Promise<void> {
  for (const partition of partitions) {
    if (await partition.hasData()) continue;
    const away = partition.master.name;
    log.error({ away }, LACKING);
    throw new StorageUnavailable(undefined, 'Redis does not have the data of the bus', away);
  }
}

/**
 * Maximum time for which a request waits for a check of all Redises (`look`). It is short: if one Redis hangs, even
 * requests that need only other Redises wait this long.
 */
const PATIENCE_MS = 100;
/**
 * Maximum age of the last look at Redis (`look`). If it is older, the next request starts another look, but does not
 * wait for its result. A look for each new connection is not enough: FLUSHALL, for example, deletes all data and closes
 * no connection.
 */
const FRESH_MS = 1000;

/**
 * Watches whether Redis still has the data of the bus, and whether its `maxmemory-policy` lets it delete events. After
 * a restart, a failover or a change by an operator, events could be lost without any error.
 */
export class StorageWatch {
  readonly #partitions: readonly Partition[];
  readonly #log: Log;
  /**
   * Sum of the partitions' `connections` (connections made so far) when the last look began. If the sum has grown,
   * `check` looks again.
   */
  #checkedConnections = 0;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  /** What the last look found wrong with each partition that answered; undefined if nothing. */
  readonly #problems = new Map<Partition, string | undefined>();
  #isLost = false;
  #looking: Promise<unknown> | undefined;

  /**
   * A web process may have two connections to a Redis. `partitions` then has each partition twice, once for each
   * connection. `check` looks at both, because either may be the first to connect again after a failure.
   */
  constructor(partitions: readonly Partition[], log: Log) {
    this.#partitions = partitions;
    this.#log = log;
  }

  /**
   * Refuses requests after Redis has lost the data of the bus, until a starting process prepares Redis anew. Otherwise
   * the bus would accept events that reach no subscriber, and tell existing clients that they do not exist.
   *
   * Usually returns undefined: the request need not wait. If the data was lost, or the process has connected to Redis
   * again, returns a promise. It resolves after another look at Redis, or rejects with StorageUnavailable if the data
   * is lost.
   */
  check(): Promise<void> | undefined {
    let connections = 0;
    for (const partition of this.#partitions) connections += partition.connections;
    const mustWait = connections !== this.#checkedConnections || this.#isLost;
    if (!this.#looking && (mustWait || clock.monotonicMs() - this.#lookedAtMs > FRESH_MS))
      this.#looking = Promise.race([this.look(), sleep(PATIENCE_MS)]).finally(() => {
        this.#checkedConnections = connections;
        this.#looking = undefined;
      });
    if (!mustWait) return undefined;
    return this.#looking?.then(() => {
      if (this.#isLost) throw new StorageLost();
      // If the process has connected again since `look` began, the answer may come from the previous Redis, such as the
      // old master before a failover. The present Redis may lack the data, so it is checked too.
      return this.check();
    });
  }

  /**
   * Looks at all partitions at the same time, so that one that hangs does not hold up the others. Logs an error if
   * Redis has lost the data of a partition, or if its `maxmemory-policy` lets it delete events. Logs such a problem
   * only once, even if several partitions have it. Never rejects.
   */
  async look(): Promise<void> {
    this.#lookedAtMs = clock.monotonicMs();
    await Promise.all(this.#partitions.map((each) => this.#lookAt(each)));
  }

  async #lookAt(partition: Partition): Promise<void> {
    try {
      const info = partition.command((redis) => redis.info('memory'));
      const [memory, isStored] = await Promise.all([info, partition.hasData()]);
      const problem = isStored ? policyProblem(memory) : LOST;
      const isKnown = [...this.#problems.values()].includes(problem);
      if (problem !== undefined && !isKnown) this.#log.error({ redis: partition.master.name }, problem);
      this.#problems.set(partition, problem);
    } catch {
      // Redis is away, or its ACL forbids the command INFO. So nothing is known of the partition until the next look.
      // This is not logged here: the job `autodrop` needs INFO too, and logs its failure.
      this.#problems.delete(partition);
    }
    this.#isLost = [...this.#problems.values()].includes(LOST);
  }
}

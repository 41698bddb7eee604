import type { Log } from '../log.ts';
import { infoField } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import { policyProblem } from './schema.ts';

const LOST =
  'Redis has lost the data of the bus, as after a restart with an empty disk. Stop the bus and restore a backup of ' +
  'Redis, or start any process of the bus again to go on without the data.';

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

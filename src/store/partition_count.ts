import type { Config } from '../config.ts';
import { BootError } from '../errors.ts';
import { keyspace } from './keys.ts';
import type { Master } from './master.ts';
import type { Partition } from './partition.ts';

/** The key that has the number of partitions. It begins with the prefix of the bus, but is in no partition. */
export const COUNT_KEY = 'partitions';

/**
 * Throws BootError if the bus cannot start with this configuration, usually because the bus in this Redis has another
 * number of partitions. The message says what to do. The first boot stores the number of partitions if there are
 * several, or if Redis is a cluster.
 */
export async function fixPartitionCount(
  { master }: Partition,
  { redisPrefix: prefix, partitions: wanted }: Pick<Config, 'redisPrefix' | 'partitions'>,
): Promise<void> {
  const hasTags = wanted > 1 || master.isInCluster;
  if (hasTags && /[{}]/.test(prefix))
    throw new BootError(
      'ROUTEMASTER_REDIS_PREFIX must have no { or }: with several partitions, or on a cluster, the bus adds the hash tags.',
    );
  const key = prefix + COUNT_KEY;
  const holder = master.forKey(key);
  const read = () => holder.call((redis) => redis.get(key));
  if (hasTags && (await read()) === null) {
    await refuseBesideOne(master, prefix);
    // Another process may store its number at the same moment. With NX, the number that comes first stays.
    await holder.call((redis) => redis.set(key, wanted, 'NX'));
  }
  const stored = await read();
  if (stored !== null && !/^\d+$/.test(stored))
    throw new BootError(
      'A move into this bus is not finished: run the same bin/move again. docs/scale.md has more.',
    );
  if (stored !== null && Number(stored) !== wanted)
    throw new BootError(
      `This bus has ${stored} partitions, and ROUTEMASTER_PARTITIONS is ${wanted}. The number is fixed when a bus is ` +
        'created: set it back, or move the bus as docs/scale.md says.',
    );
}

/**
 * Throws BootError if this Redis has the data of a bus whose keys have no hash tags: one with a single partition, or a
 * Ruby Routemaster. A bus whose keys have hash tags would not find that data, and never deliver it.
 */
async function refuseBesideOne(master: Master, prefix: string): Promise<void> {
  const keys = keyspace(prefix);
  const exists = async (key: string) => (await master.forKey(key).call((redis) => redis.exists(key))) > 0;
  const isOne = await exists(keys.schema());
  const ofRuby = [keys.subscribers(), keys.topics(), keys.batches_index(), keys.api_tokens()];
  if (!isOne && !(await Promise.all(ofRuby.map(exists))).includes(true)) return;
  if (!isOne)
    throw new BootError(
      'This Redis has the data of a Ruby Routemaster, which only a bus with one partition takes over. Unset ' +
        'ROUTEMASTER_PARTITIONS, take it over as docs/migrating.md says, and then move the bus as docs/scale.md says.',
    );
  throw new BootError(
    'This Redis has a bus with one partition. ROUTEMASTER_PARTITIONS cannot change that: move the bus as docs/scale.md ' +
      'says, or give the new one another ROUTEMASTER_REDIS_PREFIX.',
  );
}

import type { Config } from '../config.ts';
import { BootError } from '../errors.ts';
import { keyspace } from './keys.ts';
import type { Master } from './master.ts';
import type { Partition } from './partition.ts';

/** The key that has the number of partitions, without the prefix of the bus. The key is in no partition. */
export const COUNT_KEY = 'partitions';

type Wanted = Pick<Config, 'redisPrefix' | 'partitions'>;

/** True if the keys of the bus have hash tags. Only then is the number of its partitions stored. */
function hasTags({ master }: Partition, { partitions }: Wanted): boolean {
  return partitions > 1 || master.isInCluster;
}

/**
 * Stores the number of partitions if this is the first boot of the bus and its keys have hash tags. Throws BootError as
 * `checkPartitionCount` does.
 */
export async function fixPartitionCount(control: Partition, wanted: Wanted): Promise<void> {
  const isStored = await checkPartitionCount(control, wanted);
  if (isStored || !hasTags(control, wanted)) return;
  const key = wanted.redisPrefix + COUNT_KEY;
  // Another process may store its number at the same moment. With NX, the number that comes first stays.
  await control.master.forKey(key).call((redis) => redis.set(key, wanted.partitions, 'NX'));
  await checkPartitionCount(control, wanted);
}

/**
 * Throws BootError if the bus cannot start with this configuration, usually because the bus in this Redis has another
 * number of partitions. Returns true if the number of partitions is stored in Redis. Stores nothing.
 */
export async function checkPartitionCount(control: Partition, wanted: Wanted): Promise<boolean> {
  const { master } = control;
  const { redisPrefix: prefix, partitions } = wanted;
  if (hasTags(control, wanted) && /[{}]/.test(prefix))
    throw new BootError(
      'ROUTEMASTER_REDIS_PREFIX must have no { or }: with several partitions, or on a cluster, the bus adds the hash tags.',
    );
  const key = prefix + COUNT_KEY;
  const stored = await master.forKey(key).call((redis) => redis.get(key));
  if (stored === null) {
    if (hasTags(control, wanted)) await refuseBesideOne(master, prefix);
    return false;
  }
  if (!/^\d+$/.test(stored))
    throw new BootError(
      'A move into this bus is not finished: run the same bin/move again. docs/scale.md has more.',
    );
  if (Number(stored) !== partitions)
    throw new BootError(
      `This bus has ${stored} partitions, and ROUTEMASTER_PARTITIONS is ${partitions}. The number is fixed when a ` +
        'bus is created: set it back, or move the bus as docs/scale.md says.',
    );
  return true;
}

/**
 * Throws BootError if this Redis has the data of a bus whose keys have no hash tags: one with a single partition, or a
 * Ruby Routemaster. A bus whose keys have hash tags would neither find nor deliver that data.
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

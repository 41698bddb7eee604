import { StorageUnavailable } from '../errors.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

export type CensusSubscriber = Reply<'census'>['subscribers'][number];

/**
 * The figures (queued events, health points and so on) of all subscribers at `nowMs`, except those in partitions that
 * cannot be reached. `standings` is the JSON text that the last run of the job `sample` stored: the figures and rates
 * from which the next run calculates new rates.
 */
interface Census {
  subscribers: CensusSubscriber[];
  nowMs: number;
  standings: string | undefined;
}

/**
 * Reads the figures of the subscribers in all partitions that answer. Throws if the control partition does not answer,
 * because only it has the `standings`.
 */
export async function census(partitions: Partitions): Promise<Census> {
  const { found, missing } = await partitions.reach(censusOf);
  const [first] = found;
  if (!first || missing.includes(partitions.control))
    throw new StorageUnavailable(undefined, 'the control partition does not answer');
  return { ...first, subscribers: found.flatMap(({ subscribers }) => subscribers) };
}

/** Reads the figures of a partition's subscribers: those of about 100 subscribers in each script call. */
async function censusOf(partition: Partition): Promise<Census> {
  const found = new Map<string, CensusSubscriber>();
  let standings: string | undefined;
  for (let place = '0'; ; ) {
    const part = await partition.run('census', { place });
    for (const subscriber of part.subscribers) found.set(subscriber.token, subscriber);
    standings ??= part.standings;
    place = part.place;
    if (place === '0') return { subscribers: [...found.values()], nowMs: part.nowMs, standings };
  }
}

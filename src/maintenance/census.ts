import { StorageUnavailable } from '../errors.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

type Page = Reply<'census'>;
export type CensusSubscriber = Page['subscribers'][number];

/**
 * The figures (queued events, health points and so on) of all subscribers at `nowMs`, except those in partitions that
 * are away. `standings` is the JSON text that the last run of the job `sample` stored: the figures and rates from which
 * the next run calculates new rates.
 */
interface Census {
  subscribers: CensusSubscriber[];
  nowMs: number;
  standings: string | undefined;
}

/** Reads the figures of about 100 subscribers, and in the control partition the `standings`. */
export function firstPage(partition: Partition): Promise<Page> {
  return partition.run('census', { place: '0' });
}

/**
 * Reads the figures of the subscribers in all partitions that are not away. `page` is the first page of the control
 * partition. Throws if the control partition is away, because only it has the `standings`.
 */
export async function census(partitions: Partitions, page: Page): Promise<Census> {
  const { found, away } = await partitions.reach(async (partition) =>
    censusOf(partition, partition === partitions.control ? page : await firstPage(partition)),
  );
  const [first] = found;
  if (!first || away.includes(partitions.control))
    throw new StorageUnavailable(undefined, 'the control partition is away');
  return { ...first, subscribers: found.flatMap(({ subscribers }) => subscribers) };
}

/** Reads the figures of a partition's subscribers. One script call reads about 100 of them. */
async function censusOf(partition: Partition, first: Page): Promise<Census> {
  const found = new Map<string, CensusSubscriber>();
  for (let page = first; ; page = await partition.run('census', { place: page.place })) {
    for (const subscriber of page.subscribers) found.set(subscriber.token, subscriber);
    if (page.place === '0')
      return { subscribers: [...found.values()], nowMs: page.nowMs, standings: first.standings };
  }
}

import { bidOf, type QueueName, SHARES } from '../../store/job.ts';
import { slices, type Walk } from './walk.ts';

/** A job's bytes as Latin-1 text, because a map cannot have bytes as keys. */
export type PackedJob = string;

/** Some of the jobs in one place of a queue. A place is a list or a sorted set that has jobs of one state. */
export interface Place {
  jobs: Buffer[];
  /** If this place has the waiting jobs of one subscriber, the token of this subscriber. */
  waitingSubscriber?: string;
  /**
   * True if jobs in this place may outlive their batches. The sweep does not report such a job, because the script
   * `acquire` deletes it when a worker is about to get it.
   */
  leftovers?: true;
}

export const textOf = (job: Buffer): PackedJob => job.toString('latin1');
export const bytesOf = (job: PackedJob): Buffer => Buffer.from(job, 'latin1');

/**
 * Yields the jobs in all places of a queue. Reads the places in the order in which a job passes through them, so a job
 * that moves meanwhile is usually found in its new place. One of these places are the waiting jobs of each subscriber
 * (lua/delivering/waiting.lua): `waitingTokens` says which subscribers may have some.
 */
export async function* jobPlaces(
  walk: Walk,
  q: QueueName,
  waitingTokens: Iterable<string>,
): AsyncGenerator<Place> {
  const { keys } = walk.partition;
  for await (const jobs of walk.members('jobs_scheduled', q)) yield { jobs };
  for await (const jobs of walk.elements(keys.jobs_instant(q))) yield { jobs, leftovers: true };
  if (q === 'main') {
    for (const token of waitingTokens)
      for await (const jobs of walk.members('jobs_waiting', token)) yield { jobs, waitingSubscriber: token };
    for (const share of SHARES)
      for await (const jobs of walk.elements(keys.share_jobs(share))) yield { jobs, leftovers: true };
    for await (const jobs of walk.elements(keys.jobs_suspect())) yield { jobs, leftovers: true };
  }
  for await (const workers of walk.members('jobs_pending_index', q)) {
    const held = await walk.ask((redis) =>
      Promise.all(
        workers.map((each) => walk.skippable(redis.lrangeBuffer(keys.jobs_pending(q, String(each)), 0, -1))),
      ),
    );
    yield { jobs: held.flatMap((jobs) => jobs ?? []) };
  }
}

/** Returns the given jobs whose batch no longer exists. */
export async function withoutBatch(walk: Walk, jobs: Buffer[]): Promise<Buffer[]> {
  const deliveries = jobs.flatMap((job) => {
    const bid = bidOf(job);
    return bid ? { job, bid } : [];
  });
  const gone: Buffer[] = [];
  for (const slice of slices(deliveries)) {
    const batches = slice.map(({ bid }) => walk.partition.keys.batch(bid));
    // Usually no batch is missing, and this one command is enough. If one is missing, ask for each batch on its own.
    if ((await walk.ask((redis) => redis.exists(...batches))) === batches.length) continue;
    const found = await walk.ask((redis) => Promise.all(batches.map((each) => redis.exists(each))));
    gone.push(...slice.filter((_, index) => found[index] === 0).map(({ job }) => job));
  }
  return gone;
}

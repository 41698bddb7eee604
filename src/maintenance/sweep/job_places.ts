import { deliveredBy, type QueueName, SHARES } from '../../store/job.ts';
import { slices, type Walk } from './walk.ts';

/** A job's bytes as latin1, to serve as a key of maps. */
export type PackedJob = string;

/** Jobs that are in one place. */
export interface Place {
  jobs: Buffer[];
  /** The subscriber whose lane these jobs wait for; empty if they are not waiting. */
  lane: string;
  /** Whether jobs of dropped batches may be left in this place: `acquire` removes them when it comes to them. */
  leftovers: boolean;
}

export const textOf = (job: Buffer): PackedJob => job.toString('latin1');
export const bytesOf = (job: PackedJob): Buffer => Buffer.from(job, 'latin1');

/**
 * All places of a queue's jobs, in the order in which jobs move through them, so that few moving jobs are missed. `waiting`
 * holds the subscribers with waiting jobs.
 */
export async function* jobPlaces(walk: Walk, q: QueueName, waiting: Iterable<string>): AsyncGenerator<Place> {
  const { keys } = walk.partition;
  const at = (jobs: Buffer[], lane = '', leftovers = false): Place => ({ jobs, lane, leftovers });
  for await (const jobs of walk.members('zset', keys.jobs_scheduled(q))) yield at(jobs);
  for await (const jobs of walk.elements(keys.jobs_instant(q))) yield at(jobs, '', true);
  if (q === 'main') {
    for (const lane of waiting)
      for await (const jobs of walk.members('zset', keys.jobs_waiting(lane))) yield at(jobs, lane);
    for (const share of SHARES)
      for await (const jobs of walk.elements(keys.share_jobs(share))) yield at(jobs, '', true);
  }
  for await (const workers of walk.members('set', keys.jobs_pending_index(q))) {
    const held = await walk.ask((redis) =>
      Promise.all(workers.map((each) => redis.lrangeBuffer(keys.jobs_pending(q, String(each)), 0, -1))),
    );
    yield at(held.flat());
  }
}

/** Those of the jobs that deliver a batch which does not exist. */
export async function withoutBatch(walk: Walk, jobs: Buffer[]): Promise<Buffer[]> {
  const deliveries = jobs.filter((job) => deliveredBy(job) !== '');
  const gone: Buffer[] = [];
  for (const slice of slices(deliveries)) {
    const batches = slice.map((job) => walk.partition.keys.batch(deliveredBy(job)));
    // Usually all batches exist, and this one command is enough.
    if ((await walk.ask((redis) => redis.exists(...batches))) === batches.length) continue;
    const found = await walk.ask((redis) => Promise.all(batches.map((each) => redis.exists(each))));
    gone.push(...slice.filter((_, index) => found[index] === 0));
  }
  return gone;
}

import type { Reply } from '../store/contracts.ts';
import { QUEUES, type QueueName, unpackJob } from '../store/job.ts';
import { Packed } from '../store/packed.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import {
  type FoundJob,
  JOB_STATES,
  type JobPlace,
  type JobState,
  jobPlaces,
  type Position,
} from './job_places.ts';

/** A job as it is listed. Times are in ms, by Redis's clock. */
export interface ListedJob {
  id: string;
  queue: QueueName;
  /** The index of the partition that has the job; missing if the bus has only one. */
  partition?: number;
  name: string | null;
  arguments: unknown[];
  state: JobState;
  /** The token of the subscriber to which the job delivers. Null for a job that does not deliver. */
  subscriber: string | null;
  due: number | null;
  worker: string | null;
  since: number | null;
  /** Number of attempts at the batch that have begun. Null if the job does not deliver. */
  attempts: number | null;
  /** True if the job waits because its subscriber is paused. Null if the job is not in the state `waiting`. */
  paused: boolean | null;
}

interface JobFilter {
  queue?: QueueName | undefined;
  state?: JobState | undefined;
}

/** Jobs of one partition, which all have the same queue and state. `read` reads them from Redis. */
interface Source {
  partition: Partition;
  queue: QueueName;
  state: JobState;
  read: JobPlace;
}

/**
 * Matches the id of a job: its queue, the index of its partition if there are several, and the bytes of the job in
 * Redis as base64url.
 */
const JOB_ID = /^(main|aux)(?:\.(\d{1,3}))?-([\w-]{1,1000})$/;

/** Lists the jobs of all queues. */
export class Jobs {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /**
   * Returns up to `max` jobs of a listing, from `place` on. `next` is where the next page begins, or undefined on the
   * last page. `looked` is the number of workers and subscribers whose jobs were looked for. It is limited, so even a
   * page before the last may have fewer than `max` jobs. A job whose state changes during the listing may be shown
   * twice, or not at all.
   */
  async page(filter: JobFilter, max: number, place = '[0]') {
    const sources = this.#sources(filter);
    const jobs: ListedJob[] = [];
    let looked = 0;
    let [index, after] = JSON.parse(place) as [number, Position?];
    for (; index < sources.length; index++, after = undefined) {
      if (jobs.length === max) return { jobs, looked, next: JSON.stringify([index]) };
      const source = sources[index] as Source;
      const slice = await source.partition.command((redis, keys) =>
        source.read(redis, keys, after, max - jobs.length),
      );
      jobs.push(...(await this.#listed(source, slice.jobs)));
      looked += slice.looked ?? 0;
      if (slice.end) return { jobs, looked, next: JSON.stringify([index, slice.end]) };
    }
    return { jobs, looked };
  }

  /** Makes a scheduled job instant, so that it runs now. */
  async run(id: string): Promise<Reply<'run_job'>> {
    const [, q, place = '0', packed = ''] = JOB_ID.exec(id) ?? [];
    const partition = q === undefined ? undefined : this.#partitions.all[Number(place)];
    if (!partition) return 'job_not_found';
    return partition.run('run_job', { q: q as QueueName, job: Buffer.from(packed, 'base64url') });
  }

  #sources({ queue, state }: JobFilter): Source[] {
    const [queues, states] = [queue ? [queue] : QUEUES, state ? [state] : JOB_STATES];
    return queues.flatMap((queue) =>
      states.flatMap((state) =>
        jobPlaces(queue, state).flatMap((read) =>
          this.#partitions.all.map((partition) => ({ partition, queue, state, read })),
        ),
      ),
    );
  }

  async #listed({ partition, queue, state }: Source, found: FoundJob[]): Promise<ListedJob[]> {
    const jobs = found.map((each) => ({ ...each, job: unpackJob(Packed.of(each.packed)) }));
    const headers = await partition.command((redis, keys) =>
      Promise.all(
        jobs.map(({ job }) =>
          job?.name === 'batch' ? redis.lrange(keys.batch(String(job.args[0])), 0, 2) : [],
        ),
      ),
    );
    const isAlone = this.#partitions.all.length === 1;
    const where = isAlone ? queue : `${queue}.${partition.index}`;
    const paused =
      state === 'waiting'
        ? await this.#paused(
            partition,
            headers.flatMap(([token]) => token ?? []),
          )
        : undefined;
    return jobs.map(({ packed, job, dueMs, worker, sinceMs }, index) => {
      const [subscriber, , attempts] = headers[index] ?? [];
      return {
        ...{ id: `${where}-${packed.toString('base64url')}`, queue, name: job?.name ?? null },
        ...(!isAlone && { partition: partition.index }),
        ...{ arguments: job?.args ?? [], state, subscriber: subscriber ?? null },
        ...{ due: dueMs ?? null, worker: worker ?? null, since: sinceMs || null },
        attempts: attempts === undefined ? null : Number(attempts),
        paused: paused && subscriber ? paused.has(subscriber) : null,
      };
    });
  }

  /** Returns those of the `tokens` whose subscribers are paused. */
  #paused(partition: Partition, tokens: readonly string[]): Promise<Set<string>> {
    const distinct = [...new Set(tokens)];
    return partition.command(async (redis, keys) => {
      const flags = await Promise.all(
        distinct.map((token) => redis.hexists(keys.subscriber(token), 'paused_at')),
      );
      return new Set(distinct.filter((_, index) => flags[index] === 1));
    });
  }
}

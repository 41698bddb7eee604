import { z } from 'zod';
import { NAMED } from '../routing/schemas.ts';
import type { Reply } from '../store/contracts.ts';
import { QUEUES, type QueueName, unpackJob } from '../store/job.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { JOB_ID, jobId } from './job_id.ts';
import { type FoundJob, JOB_STATES, type JobReader, type JobState, jobReaders } from './job_readers.ts';

const ms = z.int();

/** A job as it is listed. Times are in ms, by Redis's clock. */
export const JOB = z
  .object({
    id: z.string(),
    queue: z.enum(QUEUES),
    partition: z.int().optional().describe('Which partition has it; missing if the bus has one alone.'),
    name: z.string().nullable().describe('`batch` delivers a batch.'),
    arguments: z.array(z.unknown()).describe('Of a delivery: the id of its batch.'),
    state: z.enum(JOB_STATES),
    subscriber: z.string().nullable().describe('Whose delivery it is.'),
    due: ms.nullable().describe('When a scheduled job becomes instant.'),
    worker: z.string().nullable().describe('Which worker has it.'),
    since: ms.nullable().describe('Since when a worker has it, or it waits.'),
    attempts: z.int().nullable().describe('How many attempts at the batch have begun.'),
    paused: z
      .boolean()
      .nullable()
      .describe('Whether it waits because its subscriber is paused; null if it does not wait.'),
  })
  .register(NAMED, { name: 'Job' });
export type ListedJob = z.infer<typeof JOB>;

interface JobFilter {
  queue?: QueueName | undefined;
  state?: JobState | undefined;
}

interface Source {
  partition: Partition;
  queue: QueueName;
  state: JobState;
  read: JobReader;
}

/** Lists the jobs of all queues. */
export class Jobs {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /**
   * Returns up to `max` jobs of a listing, from `place` on. `next` is where the next page begins; undefined on the last
   * page. A page searches a limited number of workers and subscribers (`looked` is how many), so it may be short
   * although more jobs follow. A job whose state changes meanwhile may be shown twice, or not at all.
   */
  async page(filter: JobFilter, max: number, place = '[0]') {
    const sources = this.#sources(filter);
    const jobs: ListedJob[] = [];
    let looked = 0;
    let [index, readerPlace] = JSON.parse(place) as [number, unknown?];
    for (; index < sources.length; index++, readerPlace = undefined) {
      if (jobs.length === max) return { jobs, looked, next: JSON.stringify([index]) };
      const source = sources[index] as Source;
      const slice = await source.partition.command((redis, keys) =>
        source.read(redis, keys, readerPlace, max - jobs.length, source.partition.skip),
      );
      jobs.push(...(await this.#listed(source, slice.jobs)));
      looked += slice.looked ?? 0;
      if (slice.next) return { jobs, looked, next: JSON.stringify([index, slice.next]) };
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
        jobReaders(queue, state).flatMap((read) =>
          this.#partitions.all.map((partition) => ({ partition, queue, state, read })),
        ),
      ),
    );
  }

  async #listed({ partition, queue, state }: Source, found: FoundJob[]): Promise<ListedJob[]> {
    const jobs = found.map((each) => ({ ...each, job: unpackJob(each.packed) }));
    const headers = await partition.command((redis, keys) =>
      Promise.all(
        jobs.map(({ job }) =>
          job?.name === 'batch'
            ? redis.lrange(keys.batch(String(job.args[0])), 0, 2).catch(partition.skip)
            : undefined,
        ),
      ),
    );
    const isAlone = this.#partitions.all.length === 1;
    const where = isAlone ? queue : `${queue}.${partition.index}`;
    const tokens = headers.flatMap((header) => header?.[0] ?? []);
    const paused = state === 'waiting' ? await this.#paused(partition, tokens) : undefined;
    return jobs.map(({ packed, job, dueMs, worker, sinceMs }, index) => {
      const [subscriber, , attempts] = headers[index] ?? [];
      return {
        id: jobId(where, packed),
        queue,
        name: job?.name ?? null,
        ...(!isAlone && { partition: partition.index }),
        arguments: job?.args ?? [],
        state,
        subscriber: subscriber ?? null,
        due: dueMs ?? null,
        worker: worker ?? null,
        since: sinceMs || null,
        attempts: attempts === undefined ? null : Number(attempts),
        paused: paused && subscriber ? paused.has(subscriber) : null,
      };
    });
  }

  #paused(partition: Partition, tokens: readonly string[]): Promise<Set<string>> {
    const distinct = [...new Set(tokens)];
    return partition.command(async (redis, keys) => {
      const flags = await Promise.all(
        distinct.map((token) => redis.hexists(keys.subscriber(token), 'paused_at').catch(partition.skip)),
      );
      return new Set(distinct.filter((_, index) => flags[index] === 1));
    });
  }
}

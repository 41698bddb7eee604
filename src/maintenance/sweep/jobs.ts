import { crc32 } from 'node:zlib';
import { bidOf, packJob, type QueueName, SHARES } from '../../store/job.ts';
import { sumOf } from '../../sum.ts';
import { bytesOf, jobPlaces, type PackedJob, type Place, textOf, withoutBatch } from './job_places.ts';
import { slices, type Walk } from './walk.ts';

/**
 * Maximum comparisons in one script call. The script finds a job by comparing it with each element of several lists.
 * 500,000 comparisons take Redis about 10 ms.
 */
const MAX_COMPARISONS = 500_000;
const MAX_SUSPECTS = 100;

interface JobClues {
  waitingTokens: Iterable<string>;
  jobless: Iterable<string>;
  /**
   * Number of living workers of the Ruby Routemaster, or undefined if there are none. A Ruby worker finds no batch for
   * a delivery job, and loses the job. So while a Ruby worker lives, the sweep restores delivery jobs to a list that
   * only this bus reads.
   */
  rubyWorkers?: number | undefined;
  maxJobs: number;
}

/**
 * Repairs the jobs of one queue. A correct job is in the queue's index (a set of all its jobs), and in exactly one
 * place (a list or sorted set of the jobs in one state). INTERNALS.md ("Jobs in no state") explains the checks.
 */
export class JobSweep {
  readonly #walk: Walk;
  readonly #q: QueueName;
  readonly #clues: JobClues;
  /** For each waiting job that this sweep has seen, the token of the job's subscriber. */
  readonly #waitingSubscribers = new Map<PackedJob, string>();
  #portions = 1;
  #portion = 0;

  constructor(walk: Walk, q: QueueName, clues: JobClues) {
    this.#walk = walk;
    this.#q = q;
    this.#clues = clues;
  }

  async run(): Promise<void> {
    const { maxJobs, jobless } = this.#clues;
    const total = await this.#walk.ask((redis, keys) => redis.scard(keys.jobs_index(this.#q)));
    this.#portions = Math.max(1, Math.ceil(total / maxJobs));
    this.#portion = Math.floor(Math.random() * this.#portions);
    const known = await this.#readIndex();
    const unindexed = new Set(Array.from(jobless, (bid) => textOf(packJob('batch', [bid]))));
    await this.#countPlaces(known, unindexed);
    const odd = new Map<PackedJob, number>();
    for (const [job, places] of known) if (places !== 1) odd.set(job, 0);
    if (odd.size > 0) await this.#countPlaces(odd);
    for (const [job, places] of odd) if (places === 1) odd.delete(job);
    await this.#repairThose(odd.keys(), { indexed: 1 });
    await this.#repairThose(unindexed, { indexed: 0 });
  }

  /**
   * Reads the index of the queue. Returns the jobs that this sweep checks, each with the number 0. `#countPlaces` later
   * counts in how many places each job is. Also removes a job from the index if its batch is gone and no worker has the
   * job.
   */
  async #readIndex(): Promise<Map<PackedJob, number>> {
    const known = new Map<PackedJob, number>();
    for await (const jobs of this.#walk.members('jobs_index', this.#q)) {
      const ofPortion = jobs.filter((job) => this.#isInPortion(job));
      for (const job of ofPortion) known.set(textOf(job), 0);
      await this.#repair(await withoutBatch(this.#walk, ofPortion));
    }
    return known;
  }

  #isInPortion(job: Buffer): boolean {
    return this.#portions === 1 || crc32(job) % this.#portions === this.#portion;
  }

  /**
   * Reads all places of the queue: the lists and sorted sets that have its jobs. Counts how often each job in `known`
   * is found there. If `unindexed` is given, adds to it the jobs that are not in `known`.
   */
  async #countPlaces(known: Map<PackedJob, number>, unindexed?: Set<PackedJob>): Promise<void> {
    for await (const place of jobPlaces(this.#walk, this.#q, this.#clues.waitingTokens)) {
      for (const job of place.jobs.map(textOf)) {
        const places = known.get(job);
        if (places === undefined) continue;
        known.set(job, places + 1);
        if (place.waitingSubscriber) this.#waitingSubscribers.set(job, place.waitingSubscriber);
      }
      if (unindexed) await this.#addUnindexed(place, known, unindexed);
    }
  }

  /**
   * Adds to `unindexed` the jobs in `place` that the index (`known`) lacks, up to `maxJobs` in all. Skips a job without
   * a batch if the script `acquire` deletes such jobs from this place (`leftovers`).
   */
  async #addUnindexed(place: Place, known: Map<PackedJob, number>, unindexed: Set<PackedJob>): Promise<void> {
    const others = place.jobs.filter((job) => !known.has(textOf(job)) && this.#isInPortion(job));
    const leftovers = place.leftovers ? await withoutBatch(this.#walk, others) : [];
    const ignored = new Set(leftovers.map(textOf));
    for (const job of others.map(textOf)) {
      if (ignored.has(job) || unindexed.size >= this.#clues.maxJobs) continue;
      unindexed.add(job);
      if (place.waitingSubscriber) this.#waitingSubscribers.set(job, place.waitingSubscriber);
    }
  }

  /**
   * Repairs jobs that seemed wrong. First reads the index of the queue again, because it may have changed meanwhile.
   * With `indexed` 1, repairs only jobs that are still in the index. With 0, repairs only jobs that the index still
   * lacks.
   */
  async #repairThose(suspects: Iterable<PackedJob>, { indexed }: { indexed: 0 | 1 }): Promise<void> {
    for (const slice of slices(suspects)) {
      if (this.#walk.aborted) return;
      const jobs = slice.map(bytesOf);
      const found = await this.#walk.ask((redis, keys) =>
        redis.smismember(keys.jobs_index(this.#q), ...jobs),
      );
      await this.#repair(jobs.filter((_, index) => found[index] === indexed));
    }
  }

  async #repair(suspects: Buffer[]): Promise<void> {
    for (let at = 0; at < suspects.length && !this.#walk.aborted; ) {
      const long = await this.#walk.ask(async (redis, keys) => {
        const shares = SHARES.map((share) => keys.share_jobs(share));
        const lists = [keys.jobs_instant(this.#q), ...shares, keys.jobs_suspect()];
        return sumOf(await Promise.all(lists.map((each) => redis.llen(each))));
      });
      const count = Math.min(MAX_SUSPECTS, Math.ceil(MAX_COMPARISONS / (long + 1)));
      const slice = suspects.slice(at, at + count);
      const suspect = (job: Buffer) => ({
        job,
        bid: bidOf(job) ?? '',
        laneToken: this.#waitingSubscribers.get(textOf(job)),
      });
      await this.#walk.repair('sweep_jobs', {
        q: this.#q,
        rubyWorkers: this.#clues.rubyWorkers,
        suspects: slice.map(suspect),
      });
      at += slice.length;
    }
  }
}

import { crc32 } from 'node:zlib';
import { deliveredBy, packJob, type QueueName, SHARES } from '../../store/job.ts';
import { slices, type Walk } from './walk.ts';

/** The script searches long lists for each suspect: so many elements a call at most, about 10 ms of Redis. */
const MOST_COMPARED = 500_000;
const MOST_SUSPECTS = 100;

/** A job's bytes as latin1, to be looked up by. */
type PackedJob = string;

/** Jobs that are in one place. */
interface Place {
  jobs: Buffer[];
  /** In whose lane they wait aside; empty if they do not. */
  lane: string;
  /** Jobs of dropped batches are left here until acquire comes by. */
  leftovers: boolean;
}

export interface JobClues {
  /** Subscribers with jobs that wait aside. */
  waiting: Iterable<string>;
  /** Batches that seemed to have no job. */
  jobless: Iterable<string>;
  /** How many jobs one sweep looks at: bounds its memory. */
  most: number;
}

/**
 * Mends the jobs of one queue. Which job is in no state shows only when all states have been read: so this reads the index,
 * `most` jobs of it (where there are more, each sweep takes another part, at random), and counts in how many places each is
 * seen. Jobs move while they are read. Those that were not seen in exactly one place, twice in succession, are suspects,
 * which the script judges in one step.
 */
export class JobSweep {
  readonly #walk: Walk;
  readonly #q: QueueName;
  readonly #clues: JobClues;
  /** In whose lane jobs were seen to wait aside, of those that matter. */
  readonly #lanes = new Map<PackedJob, string>();
  #parts = 1;
  #part = 0;

  constructor(walk: Walk, q: QueueName, clues: JobClues) {
    this.#walk = walk;
    this.#q = q;
    this.#clues = clues;
  }

  async run(): Promise<void> {
    const { most, jobless } = this.#clues;
    const total = await this.#walk.ask((redis, keys) => redis.scard(keys.jobs_index(this.#q)));
    this.#parts = Math.max(1, Math.ceil(total / most));
    this.#part = Math.floor(Math.random() * this.#parts);
    const known = await this.#readIndex();
    const strangers = new Set(Array.from(jobless, (bid) => textOf(packJob('batch', [bid]))));
    await this.#count(known, strangers);
    const odd = new Map<PackedJob, number>();
    for (const [job, places] of known) if (places !== 1) odd.set(job, 0);
    if (odd.size > 0) await this.#count(odd);
    for (const [job, places] of odd) if (places === 1) odd.delete(job);
    await this.#mendThose(odd.keys(), { indexed: 1 });
    await this.#mendThose(strangers, { indexed: 0 });
  }

  /** The jobs of the index, seen in no place yet. Those of which the batch is gone are mended at once. */
  async #readIndex(): Promise<Map<PackedJob, number>> {
    const known = new Map<PackedJob, number>();
    const index = this.#walk.store.keys.jobs_index(this.#q);
    for await (const jobs of this.#walk.members('set', index)) {
      const mine = jobs.filter((job) => this.#isMine(job));
      for (const job of mine) known.set(textOf(job), 0);
      await this.#mend(await this.#withoutBatch(mine));
    }
    return known;
  }

  #isMine(job: Buffer): boolean {
    return this.#parts === 1 || crc32(job) % this.#parts === this.#part;
  }

  /** Counts the places in which `known` jobs are seen; others become strangers, if these are asked for. */
  async #count(known: Map<PackedJob, number>, strangers?: Set<PackedJob>): Promise<void> {
    for await (const place of this.#places()) {
      for (const job of place.jobs.map(textOf)) {
        const places = known.get(job);
        if (places === undefined) continue;
        known.set(job, places + 1);
        if (place.lane !== '') this.#lanes.set(job, place.lane);
      }
      if (strangers) await this.#addStrangers(place, known, strangers);
    }
  }

  async #addStrangers(place: Place, known: Map<PackedJob, number>, strangers: Set<PackedJob>): Promise<void> {
    const strange = place.jobs.filter((job) => !known.has(textOf(job)) && this.#isMine(job));
    const leftovers = new Set(place.leftovers ? (await this.#withoutBatch(strange)).map(textOf) : []);
    for (const job of strange.map(textOf)) {
      if (leftovers.has(job) || strangers.size >= this.#clues.most) continue;
      strangers.add(job);
      if (place.lane !== '') this.#lanes.set(job, place.lane);
    }
  }

  /** All places, in the order in which jobs go through them: so few are missed that move meanwhile. */
  async *#places(): AsyncGenerator<Place> {
    const { keys } = this.#walk.store;
    const q = this.#q;
    const at = (jobs: Buffer[], lane = '', leftovers = false): Place => ({ jobs, lane, leftovers });
    for await (const jobs of this.#walk.members('zset', keys.jobs_scheduled(q))) yield at(jobs);
    for await (const jobs of this.#walk.elements(keys.jobs_instant(q))) yield at(jobs, '', true);
    if (q === 'main') {
      for (const lane of this.#clues.waiting) {
        for await (const jobs of this.#walk.members('zset', keys.jobs_waiting(lane))) yield at(jobs, lane);
      }
      for (const share of SHARES)
        for await (const jobs of this.#walk.elements(keys.share_jobs(share))) yield at(jobs, '', true);
    }
    for await (const workers of this.#walk.members('set', keys.jobs_pending_index(q))) {
      const held = await this.#walk.ask((redis) =>
        Promise.all(workers.map((each) => redis.lrangeBuffer(keys.jobs_pending(q, String(each)), 0, -1))),
      );
      yield at(held.flat());
    }
  }

  /** Those of which the batch is gone. */
  async #withoutBatch(jobs: Buffer[]): Promise<Buffer[]> {
    const deliveries = jobs.filter((job) => deliveredBy(job) !== '');
    const gone: Buffer[] = [];
    for (const slice of slices(deliveries)) {
      const batches = slice.map((job) => this.#walk.store.keys.batch(deliveredBy(job)));
      // One command, where nothing is gone.
      if ((await this.#walk.ask((redis) => redis.exists(...batches))) === batches.length) continue;
      const there = await this.#walk.ask((redis) => Promise.all(batches.map((each) => redis.exists(each))));
      gone.push(...slice.filter((_, index) => there[index] === 0));
    }
    return gone;
  }

  /** Those that are indexed, or are not. */
  async #mendThose(suspects: Iterable<PackedJob>, { indexed }: { indexed: 0 | 1 }): Promise<void> {
    for (const slice of slices(suspects)) {
      if (this.#walk.aborted) return;
      const jobs = slice.map(bytesOf);
      const found = await this.#walk.ask((redis, keys) =>
        redis.smismember(keys.jobs_index(this.#q), ...jobs),
      );
      await this.#mend(jobs.filter((_, index) => found[index] === indexed));
    }
  }

  async #mend(suspects: Buffer[]): Promise<void> {
    for (let at = 0; at < suspects.length && !this.#walk.aborted; ) {
      const long = await this.#walk.ask(async (redis, keys) => {
        const lists = [keys.jobs_instant(this.#q), ...SHARES.map((share) => keys.share_jobs(share))];
        const lengths = await Promise.all(lists.map((each) => redis.llen(each)));
        return lengths.reduce((sum, length) => sum + length, 0);
      });
      const slice = suspects.slice(at, at + Math.min(MOST_SUSPECTS, Math.ceil(MOST_COMPARED / (long + 1))));
      const args = slice.flatMap((job) => [job, deliveredBy(job), this.#lanes.get(textOf(job)) ?? '']);
      await this.#walk.mend('sweep_jobs', this.#q, ...args);
      at += slice.length;
    }
  }
}

const textOf = (job: Buffer): PackedJob => job.toString('latin1');
const bytesOf = (job: PackedJob): Buffer => Buffer.from(job, 'latin1');

import { until } from '../harness/until.ts';
import { unpackJob } from '../src/store/job.ts';
import type { Partition } from '../src/store/partition.ts';
import type { Partitions } from '../src/store/partitions.ts';

const LOOK_EVERY_MS = 20;

/** Resolves with the ids of the batches that workers of a partition hold. */
export async function heldBatches({ redis, keys }: Partition): Promise<string[]> {
  const workers = await redis.smembers(keys.jobs_pending_index('main'));
  const jobs = await Promise.all(
    workers.map((worker) => redis.lrangeBuffer(keys.jobs_pending('main', worker), 0, -1)),
  );
  return jobs.flat().map((job) => String(unpackJob(job)?.args[0]));
}

/** Measures how long the batches that workers held at a fault take to be delivered. */
export class Recovery {
  longestMs = 0;
  readonly #partitions: Partitions;
  readonly #since = new Map<string, { partition: Partition; sinceMs: number }>();
  readonly #timer: NodeJS.Timeout;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
    this.#timer = setInterval(() => void this.#look().catch(() => {}), LOOK_EVERY_MS);
  }

  /**
   * Notes that a process died at `atMs`. Resolves with the number of batches held now. A batch that was held at an
   * earlier fault too is measured anew.
   */
  async begin(atMs: number): Promise<number> {
    const counts = this.#partitions.all.map(async (partition) => {
      const held = await heldBatches(partition);
      for (const bid of held) this.#since.set(bid, { partition, sinceMs: atMs });
      return held.length;
    });
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  }

  /** Waits until all these batches are delivered; resolves with the longest time, in ms. */
  async end(): Promise<number> {
    await until(() => this.#since.size === 0, { timeoutMs: 60_000, what: 'what was held is delivered' });
    this.close();
    return this.longestMs;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const looked = [...this.#since];
    const exist = await Promise.all(
      looked.map(([bid, { partition }]) => partition.redis.exists(partition.keys.batch(bid))),
    );
    looked.forEach(([bid, held], index) => {
      // Another fault may have hit the batch meanwhile.
      if (exist[index] === 1 || this.#since.get(bid) !== held) return;
      this.#since.delete(bid);
      this.longestMs = Math.max(this.longestMs, performance.now() - held.sinceMs);
    });
  }
}

import { clock } from '../../clock.ts';
import type { Config } from '../../config.ts';
import { StorageFull } from '../../errors.ts';
import { uidSeed } from '../../ids.ts';
import type { Log } from '../../log.ts';
import type { Recorder } from '../../metrics/recorder.ts';
import { countPublished } from '../../publishing/publication.ts';
import { type MemoryLimits, readMemory } from '../../store/memory.ts';
import type { Partition } from '../../store/partition.ts';

/** Minimum time between two measurements of Redis's memory. */
const FRESH_MS = 250;

interface DueEventsParts {
  partition: Partition;
  limits: MemoryLimits & Pick<Config, 'maxOutboxBytes'>;
  onFull: () => void;
  recorder: Pick<Recorder, 'published' | 'added' | 'publishedLate'>;
  log: Log;
}

/**
 * Publishes the delayed events of a partition that are due. All clients get equal parts of each script call, so that no
 * client keeps the others waiting. Several processes may publish at the same time.
 */
export class DueEvents {
  readonly #parts: DueEventsParts;
  #isShort = false;
  #measuredAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: DueEventsParts) {
    this.#parts = parts;
  }

  /**
   * Publishes delayed events until none is due, or `signal` is aborted. Throws StorageFull while memory is short, and
   * StorageUnavailable if Redis is away.
   */
  async publish(signal: AbortSignal): Promise<void> {
    try {
      let isLeft = true;
      for (let firstClient = 0; isLeft && !signal.aborted; firstClient++) {
        await this.#checkMemory();
        isLeft = await this.#publishSome(firstClient);
      }
    } catch (error) {
      if (error instanceof StorageFull) this.#parts.onFull();
      throw error;
    }
  }

  /**
   * Throws StorageFull as soon as Redis stores more than the bus permits (the high mark). StorageGuard would throw only
   * after a second above the high mark. By then, due events with many subscribers could have filled Redis.
   */
  async #checkMemory(): Promise<void> {
    const { partition, limits } = this.#parts;
    if (clock.monotonicMs() - this.#measuredAtMs >= FRESH_MS) {
      const { used, highMark } = await readMemory(partition, limits);
      this.#measuredAtMs = clock.monotonicMs();
      this.#isShort = used > highMark;
    }
    if (this.#isShort) throw new StorageFull(undefined, partition.master.address);
  }

  async #publishSome(firstClient: number): Promise<boolean> {
    const { partition, limits, recorder, log } = this.#parts;
    const args = { uidSeed: uidSeed(), firstClient, maxOutboxBytes: limits.maxOutboxBytes };
    const { published, lost, isLeft } = await partition.runPermitted('publish_delayed', args);
    countPublished(recorder, published);
    for (const { lateMs } of published) recorder.publishedLate(lateMs);
    for (const { topic, id } of lost)
      log.error({ topic, id }, 'a delayed event was lost: Redis has no text of it');
    return isLeft;
  }
}

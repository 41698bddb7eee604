import { clock, sleep } from '../clock.ts';
import type { Config } from '../config.ts';
import { StorageFull } from '../errors.ts';
import { uidSeed } from '../ids.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import { addedBySubscriber } from '../publishing/publication.ts';
import { type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';

/** Minimum time between two measurements of Redis's memory. While memory is short, publishing waits for this time. */
const FRESH_MS = 250;
/** Minimum time between two log warnings that delayed events wait for memory. */
const WARN_EVERY_MS = 60_000;

interface DueEventsParts {
  partition: Partition;
  limits: MemoryLimits & Pick<Config, 'maxOutboxBytes'>;
  /** Called while Redis is short of memory. The function must free some memory if the shortage lasts. */
  onFull: () => void;
  recorder: Pick<Recorder, 'published' | 'added' | 'publishedLate'>;
  log: Log;
}

/**
 * Publishes the delayed events of a partition that are due. All clients get equal parts of each script call, so that no
 * client keeps the others waiting. Events wait while Redis is short of memory (stores more than its high mark). Several
 * processes may publish at the same time.
 */
export class DueEvents {
  readonly #parts: DueEventsParts;
  #isShort = false;
  #measuredAtMs = Number.NEGATIVE_INFINITY;
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: DueEventsParts) {
    this.#parts = parts;
  }

  /**
   * Publishes delayed events until none is due. Returns early, after a wait, if memory is short. Throws
   * StorageUnavailable.
   */
  async publish(signal: AbortSignal): Promise<void> {
    let isLeft = true;
    for (let turn = 0; isLeft && !signal.aborted; turn++) {
      const reply = await this.#publishUnlessShort(turn);
      if (reply === undefined) return this.#waitForMemory(signal);
      isLeft = reply;
    }
  }

  /**
   * Publishes some of the due events. Returns true if more are due; undefined, without publishing, if memory is short.
   */
  async #publishUnlessShort(turn: number): Promise<boolean | undefined> {
    try {
      return (await this.#measure()) ? undefined : await this.#publishSome(turn);
    } catch (error) {
      if (error instanceof StorageFull) return undefined;
      throw error;
    }
  }

  /** Measures Redis's memory. Returns true if memory is short: if Redis stores more than its high mark. */
  async #measure(): Promise<boolean> {
    const { partition, limits } = this.#parts;
    if (clock.monotonicMs() - this.#measuredAtMs < FRESH_MS) return this.#isShort;
    const { used, highMark } = await readMemory(partition, limits);
    this.#measuredAtMs = clock.monotonicMs();
    this.#isShort = used > highMark;
    return this.#isShort;
  }

  /** Publishes some of the events that are due. Returns true if more are due. */
  async #publishSome(turn: number): Promise<boolean> {
    const { partition, limits, recorder, log } = this.#parts;
    const args = { uidSeed: uidSeed(), turn, maxOutboxBytes: limits.maxOutboxBytes };
    const { published, lost, isLeft } = await partition.runPermitted('publish_delayed', args);
    for (const { topic, events, bytes, subscribers, lateMs } of published) {
      recorder.published(topic, events, bytes);
      recorder.publishedLate(lateMs);
      for (const [subscriber, added] of addedBySubscriber({ events, subscribers }))
        recorder.added(subscriber, added);
    }
    for (const { topic, id } of lost)
      log.error({ topic, id }, 'a delayed event was lost: Redis has no text of it');
    return isLeft;
  }

  async #waitForMemory(signal: AbortSignal): Promise<void> {
    const { onFull, log } = this.#parts;
    onFull();
    if (clock.monotonicMs() - this.#warnedAtMs >= WARN_EVERY_MS) {
      this.#warnedAtMs = clock.monotonicMs();
      log.warn('Redis is short of memory; delayed events that are due wait, and are published late');
    }
    await sleep(FRESH_MS, signal);
  }
}

import { clock, sleep } from '../clock.ts';
import { StorageFull } from '../errors.ts';
import { uidSeed } from '../ids.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import { addedBySubscriber } from '../publishing/publication.ts';
import { type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';

/** Time for which a measurement of Redis's memory is used. While memory is short, publishing pauses for as long. */
const FRESH_MS = 250;
/** The warning that delayed events wait for memory is logged at most once in this time. */
const WARN_EVERY_MS = 60_000;

interface DueEventsParts {
  partition: Partition;
  limits: MemoryLimits;
  /** Called while Redis is short of memory: the caller must free some if that lasts. */
  onFull: () => void;
  recorder: Pick<Recorder, 'published' | 'added' | 'publishedLate'>;
  log: Log;
}

/**
 * Publishes the delayed events of a partition that are due, unless Redis stores more than the high mark: then they wait.
 * Clients take turns. Any number of processes may do so at the same time.
 */
export class DueEvents {
  readonly #parts: DueEventsParts;
  #isShort = false;
  #measuredAtMs = Number.NEGATIVE_INFINITY;
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: DueEventsParts) {
    this.#parts = parts;
  }

  /** Publishes until nothing is due. If memory is short, pauses and returns early. Throws as Partition does. */
  async publish(signal: AbortSignal): Promise<void> {
    let isLeft = true;
    for (let turn = 0; isLeft && !signal.aborted; turn++) {
      const reply = await this.#publishUnlessShort(turn);
      if (reply === undefined) return this.#waitForMemory(signal);
      isLeft = reply;
    }
  }

  /** Returns whether more is due; undefined if Redis is short of memory. */
  async #publishUnlessShort(turn: number): Promise<boolean | undefined> {
    try {
      return (await this.#measure()) ? undefined : await this.#publishSome(turn);
    } catch (error) {
      if (error instanceof StorageFull) return undefined;
      throw error;
    }
  }

  /** Returns whether Redis stores more than the high mark. */
  async #measure(): Promise<boolean> {
    const { partition, limits } = this.#parts;
    if (clock.monotonicMs() - this.#measuredAtMs < FRESH_MS) return this.#isShort;
    const { used, highMark } = await readMemory(partition, limits);
    this.#measuredAtMs = clock.monotonicMs();
    this.#isShort = used > highMark;
    return this.#isShort;
  }

  /** Returns whether more is due. */
  async #publishSome(turn: number): Promise<boolean> {
    const { partition, recorder, log } = this.#parts;
    const args = { uidSeed: uidSeed(), turn };
    const { published, lost, isLeft } = await partition.run('publish_delayed', args);
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

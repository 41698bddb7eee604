import { clock, pause } from '../clock.ts';
import { uid } from '../ids.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';
import { type Cell, CounterBuffer } from './counter_buffer.ts';
import type { Tags } from './counter_field.ts';
import type { CounterName } from './counter_names.ts';

/** The most fields in one script call: about a millisecond of Redis. */
const MOST_FIELDS = 1000;
const STOP_LIMIT_MS = 5000;
const RETRY_MS = 100;

/** What goes in one script call. Its number and contents never change: that is what makes sending it again harmless. */
interface Flush {
  number: number;
  cells: Cell[];
}

/**
 * What this process counts, buffered here and added to the `counters` hash every so often.
 * A flush that failed is sent again as it was before anything newer, so each count gets there exactly once.
 */
export class Counters {
  readonly #store: Store;
  readonly #flushIntervalMs: number;
  readonly #log: Log;
  readonly #process = uid();
  readonly #buffer = new CounterBuffer();
  #unsent: Flush[] = [];
  #lastNumber = 0;
  #flushing: Promise<void> = Promise.resolve();
  #busy = false;
  #failing = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(store: Store, { flushIntervalMs, log }: { flushIntervalMs: number; log: Log }) {
    this.#store = store;
    this.#flushIntervalMs = flushIntervalMs;
    this.#log = log;
  }

  /** Counts; Redis is not asked. Rounded, and nothing if that is not above 0: counters only grow. Never throws. */
  increment(name: CounterName, tags: Tags, by = 1): void {
    this.#buffer.add(name, tags, by);
  }

  /** Flushes every interval from now on, if there is something to flush. Keeps no process alive. */
  start(): void {
    this.#timer ??= setInterval(() => this.#tick(), this.#flushIntervalMs).unref();
  }

  /** Stops and flushes a last time, trying for `limitMs` at most; then says in the log what was lost. Never throws. */
  async stop(limitMs = STOP_LIMIT_MS): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    const endAtMs = clock.monotonicMs() + limitMs;
    for (let leftMs = limitMs; leftMs > 0; leftMs = endAtMs - clock.monotonicMs()) {
      if (await succeedsWithin(this.flush(), leftMs)) return;
      await pause(Math.min(RETRY_MS, leftMs));
    }
    this.#tellLost();
  }

  /**
   * When it resolves, all that was counted before the call is in Redis.
   * Throws as Store does; nothing is lost then, and the next flush begins with what this one left.
   */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.catch(() => {}).then(() => this.#drain());
    return this.#flushing;
  }

  #tick(): void {
    if (this.#busy || (this.#buffer.isEmpty && this.#unsent.length === 0)) return;
    this.flush().then(
      () => {
        this.#failing = false;
      },
      (error: Error) => {
        // Its message only: what failed has the arguments with it, and tags may be credentials.
        const line = { reason: error.message };
        if (!this.#failing) this.#log.warn(line, 'could not flush the counters; keeping them until it works');
        this.#failing = true;
      },
    );
  }

  async #drain(): Promise<void> {
    this.#busy = true;
    try {
      await this.#send();
      this.#unsent = this.#nextFlushes();
      await this.#send();
    } finally {
      this.#busy = false;
    }
  }

  async #send(): Promise<void> {
    for (let flush = this.#unsent[0]; flush; flush = this.#unsent[0]) {
      const pairs = flush.cells.flatMap(({ field, count }) => [field, count]);
      await this.#store.run('count', this.#process, flush.number, ...pairs);
      this.#unsent.shift();
    }
  }

  #nextFlushes(): Flush[] {
    const cells = this.#buffer.take();
    const flushes: Flush[] = [];
    for (let i = 0; i < cells.length; i += MOST_FIELDS) {
      flushes.push({ number: ++this.#lastNumber, cells: cells.slice(i, i + MOST_FIELDS) });
    }
    return flushes;
  }

  /** By name only: a tag may be a token, which may be a credential. */
  #tellLost(): void {
    const lost: Partial<Record<CounterName, number>> = {};
    for (const { name, count } of [...this.#unsent.flatMap(({ cells }) => cells), ...this.#buffer.take()]) {
      lost[name] = (lost[name] ?? 0) + count;
    }
    this.#log.error({ lost }, 'stopped before these counts were known to be stored');
  }
}

async function succeedsWithin(work: Promise<void>, limitMs: number): Promise<boolean> {
  const over = new AbortController();
  const done = work.then(
    () => true,
    () => false,
  );
  const late = pause(limitMs, over.signal).then(() => false);
  return Promise.race([done, late]).finally(() => over.abort());
}

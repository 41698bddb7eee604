import { BusAnswerError, type BusClient } from '../harness/http/bus_client.ts';
import { until } from '../harness/until.ts';
import { sleep } from '../src/clock.ts';
import type { Ledger } from './ledger.ts';

/** The pause after a refusal. */
const AFTER_REFUSAL_MS = 20;
/** Maximum time that a client waits for an answer, the same as in `BusClient`. */
export const MAX_WAIT_MS = 10_000;

export interface PublishingOptions {
  /** Part of its events' URLs. */
  name: string;
  topic: string;
  /** Stops when this many events are accepted; without it, runs until it is stopped. */
  events?: number;
  /** Events of a POST. */
  perPost?: number;
  /** Concurrent publishers; each waits for its answer before it goes on. */
  publishers?: number;
  /** Events a second, offered by all publishers together. */
  perSecond?: number;
  /** How many ms each event waits before it is published. */
  delayMs?: () => number;
  /** Repeats a POST with the same `Idempotency-Key` until its events are accepted. */
  again?: boolean;
}

/** Publishers that use all web processes in turn. Every event has a URL of its own. */
export class Publishing {
  /** Rejects if the bus refuses a valid POST. */
  readonly done: Promise<void>;
  accepted = 0;
  /** POSTs that were refused or got no answer. */
  refused = 0;
  /** Maximum time to an answer so far. */
  longestMs = 0;
  /** When each accepted POST was sent, by `performance.now()`, and the time to its answer. */
  readonly answers: { atMs: number; tookMs: number }[] = [];
  underWay = true;
  readonly #options: PublishingOptions;
  readonly #ledger: Ledger;
  readonly #webs: () => BusClient[];
  readonly #stopping = new AbortController();
  #posts = 0;

  constructor(options: PublishingOptions, ledger: Ledger, webs: () => BusClient[]) {
    this.#options = options;
    this.#ledger = ledger;
    this.#webs = webs;
    const publishers = Array.from({ length: options.publishers ?? 1 }, () => this.#publish());
    this.done = Promise.all(publishers).then(() => {
      this.underWay = false;
    });
    this.done.catch(() => this.#stopping.abort()); // whoever awaits `done` gets the error
  }

  /** Resolves when the POSTs under way are answered. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.done;
  }

  /** Waits until this many events are accepted in all. */
  async reaches(accepted: number, timeoutMs = 60_000): Promise<void> {
    await Promise.race([
      until(() => this.accepted >= accepted || !this.underWay, {
        timeoutMs,
        what: `${accepted} are accepted`,
      }),
      this.done,
    ]);
  }

  /** Waits until one more POST is refused. */
  async isRefused(): Promise<void> {
    const before = this.refused;
    await until(() => this.refused > before, { what: 'a POST is refused' });
  }

  async #publish(): Promise<void> {
    const { perPost = 1, publishers = 1, perSecond } = this.#options;
    const everyMs = perSecond ? (1000 * perPost * publishers) / perSecond : 0;
    let dueMs = performance.now();
    while (this.#goesOn()) {
      const post = ++this.#posts;
      const { topic, name } = this.#options;
      const about = `https://shop.example.com/${topic}/${name}/${post}`;
      const urls = Array.from({ length: perPost }, (_, n) => `${about}/${n}`);
      await this.#offer(urls, post);
      // An outage is not followed by a burst: that would be another fault.
      dueMs = Math.max(dueMs + everyMs, performance.now() - everyMs);
      await sleep(Math.max(0, dueMs - performance.now()), this.#stopping.signal);
    }
  }

  #goesOn(): boolean {
    const { events = Number.POSITIVE_INFINITY } = this.#options;
    return !this.#stopping.signal.aborted && this.accepted < events;
  }

  async #offer(urls: string[], post: number): Promise<void> {
    const { topic, name, delayMs, again = false } = this.#options;
    const headers: Record<string, string> = again ? { 'idempotency-key': `${name}-${post}` } : {};
    const body = urls.map((url) => ({ type: 'create', url, ...(delayMs && { delay: delayMs() }) }));
    for (let turn = post; ; turn++) {
      if (await this.#post(`/topics/${topic}`, body, headers, turn)) {
        this.#ledger.accept(topic, urls);
        this.accepted += urls.length;
        return;
      }
      this.refused++;
      await sleep(AFTER_REFUSAL_MS);
      // A repeated POST needs its answer; otherwise nobody knows what the bus has stored.
      if (!again) return;
    }
  }

  async #post(path: string, body: unknown, headers: Record<string, string>, turn: number): Promise<boolean> {
    const webs = this.#webs();
    const web = webs[turn % webs.length];
    if (!web) return false;
    const beganMs = performance.now();
    try {
      await web.call('POST', path, body, headers);
      this.answers.push({ atMs: beganMs, tookMs: performance.now() - beganMs });
      return true;
    } catch (error) {
      if (error instanceof BusAnswerError && error.status < 500) throw error;
      return false;
    } finally {
      this.longestMs = Math.max(this.longestMs, performance.now() - beganMs);
    }
  }
}

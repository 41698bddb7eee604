import type { Progress } from './deadline.ts';
import { Pending, type PendingParts } from './pending.ts';
import { sleepFor } from './retrying.ts';
import { TopicQueue } from './topic_queue.ts';
import type { Transport } from './transport.ts';

/**
 * Maximum requests at a time. A request that waits before its next attempt does not count: otherwise, while a partition
 * of the bus is away, 16 of its topics would keep all other topics waiting until their time limit. But it counts if the
 * client is over its rate, or the bus has too much to do: with 2,000 topics, a client over its rate would otherwise
 * make 12,000 requests in 15 seconds that are refused, instead of 200.
 */
const MAX_REQUESTS = 16;
const MAX_BUFFERED = { events: 10_000, characters: 16_777_216 };

/**
 * A call of `flush`. Calls of `publish` have numbers 1, 2, 3 and so on. This `flush` waits for those with numbers up to
 * `last`. `left` of them are still running.
 */
interface Flush {
  last: number;
  left: number;
  done: () => void;
}

/**
 * Publishes events in groups: while a request for a topic is running, further events of the topic are collected for the
 * next request. To bound memory, at most MAX_BUFFERED events at a time are held as JSON.
 */
export class Publisher {
  readonly #transport: Transport;
  /**
   * Events that wait outside the buffer. They are not converted to JSON yet, because the JSON of other events has
   * reached MAX_BUFFERED.
   */
  readonly #outside = new Set<Pending>();
  readonly #topics = new Map<string, TopicQueue>();
  /**
   * Functions that wait until fewer than MAX_REQUESTS requests are under way. Each of them sends a request: the first
   * one of a topic whose events wait, or again one that failed and whose pause is over.
   */
  readonly #ready: (() => void)[] = [];
  /** The publishes that have not ended, each with its number in the order of the calls. */
  readonly #unsettled = new Map<Pending, number>();
  readonly #flushes = new Set<Flush>();
  readonly #buffered = { events: 0, characters: 0 };
  #published = 0;
  #requests = 0;
  #starts = false;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Resolves when the event is stored. */
  publish(parts: PendingParts): Promise<void> {
    const pending = new Pending(parts, this.#giveUp);
    this.#unsettled.set(pending, ++this.#published);
    this.#outside.add(pending);
    this.#admit();
    return pending.stored;
  }

  /**
   * Resolves when every event that was published before this call is stored or refused, and every caller of `publish`
   * has been told. Never rejects.
   */
  async flush(): Promise<void> {
    const [last, left] = [this.#published, this.#unsettled.size];
    if (left > 0) await new Promise<void>((done) => this.#flushes.add({ last, left, done }));
    // Callers first get time to handle the outcomes of their publishes. Otherwise a program that counts its failed
    // publishes, and exits as soon as `close` resolves, would not count the failures of the last request.
    await new Promise((resolve) => setImmediate(resolve));
  }

  get #isFull(): boolean {
    const { events, characters } = this.#buffered;
    return events >= MAX_BUFFERED.events || characters >= MAX_BUFFERED.characters;
  }

  #admit(): void {
    // Without this check, each `publish` would start the loop while the buffer is full. Starting to loop over a Set is
    // slow after many of its first members were removed.
    if (this.#isFull) return;
    for (const pending of this.#outside) {
      if (this.#isFull) return;
      try {
        pending.write();
      } catch (error) {
        this.#settle(pending)?.reject(error);
        continue;
      }
      this.#outside.delete(pending);
      this.#buffered.events++;
      this.#buffered.characters += pending.text.length;
      this.#queueOf(pending.topic).add(pending);
    }
  }

  /** Returns the queue of a topic. Makes a queue if there is none: only a topic with unfinished events has a queue. */
  #queueOf(name: string): TopicQueue {
    const known = this.#topics.get(name);
    if (known) return known;
    const queue = new TopicQueue(name);
    this.#topics.set(name, queue);
    this.#ready.push(() => this.#send(queue));
    this.#startSoon();
    return queue;
  }

  /**
   * Starts requests as soon as the running code has ended, so that all events that this code publishes can go into one
   * request.
   */
  #startSoon(): void {
    if (this.#starts) return;
    this.#starts = true;
    setImmediate(() => {
      this.#admit();
      this.#starts = false;
      while (this.#requests < MAX_REQUESTS) {
        const begin = this.#ready.shift();
        if (!begin) return;
        this.#requests++;
        begin();
      }
    });
  }

  async #send(queue: TopicQueue): Promise<void> {
    const outcome = await queue.send(this.#transport, this.#rest);
    this.#requests--;
    if ('stored' in outcome) for (const pending of outcome.stored) this.#settle(pending)?.resolve();
    else for (const pending of outcome.refused) this.#settle(pending)?.reject(outcome.error);
    if (queue.isEmpty) this.#topics.delete(queue.name);
    else this.#ready.push(() => this.#send(queue));
    this.#startSoon();
  }

  /** Waits before the next attempt of a request. Other requests can begin meanwhile. */
  readonly #rest = async (ms: number, signal: AbortSignal): Promise<void> => {
    this.#requests--;
    this.#startSoon();
    try {
      await sleepFor(ms, signal);
    } catch (reason) {
      // The request ends now. It is counted once more, because `#send` will subtract it from the count.
      this.#requests++;
      throw reason;
    }
    await new Promise<void>((resolve) => {
      this.#ready.push(resolve);
      this.#startSoon();
    });
  };

  readonly #giveUp = (pending: Pending): Progress => {
    const queue = this.#topics.get(pending.topic);
    const isOutside = this.#outside.has(pending);
    const waiting = { mayBeDone: false, lastFailure: queue?.lastFailure };
    const progress = isOutside || !queue ? waiting : queue.giveUp(pending);
    this.#settle(pending);
    // The publish that has ended may leave room in the buffer for events of `#outside`. If an aborted signal ends
    // 100,000 publishes, `#startSoon` still looks for such events only once.
    this.#startSoon();
    return progress;
  };

  /**
   * Removes a publish that has ended, and returns it. Returns undefined if the publish was already removed, because its
   * caller no longer waited.
   */
  #settle(pending: Pending): Pending | undefined {
    const number = this.#unsettled.get(pending);
    if (number === undefined) return undefined;
    this.#unsettled.delete(pending);
    if (!this.#outside.delete(pending)) {
      this.#buffered.events--;
      this.#buffered.characters -= pending.text.length;
    }
    for (const flush of this.#flushes) {
      if (number > flush.last || --flush.left > 0) continue;
      this.#flushes.delete(flush);
      flush.done();
    }
    return pending;
  }
}

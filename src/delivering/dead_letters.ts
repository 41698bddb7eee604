import { BusError } from '../errors.ts';
import type { Partition } from '../store/partition.ts';
import type { AttemptReport } from './attempt.ts';
import { BATCH_HEADER_LENGTH } from './batch.ts';
import { type DeadLetter, following, newest, type Place, readLetter } from './dead_letter.ts';
import { eventJson } from './legacy_event.ts';

/** How many letters one script call revives or deletes: a few milliseconds of Redis. */
const SLICE = 100;

/** How many events are read at a time. Each has up to 64 KiB of data, unless the limit is set higher. */
const EVENTS_SLICE = 20;

export interface Page {
  letters: DeadLetter[];
  /** Where to go on, if there are more. */
  next?: Place;
}

export type RetryOutcome = 'ok' | 'dead_letter_not_found' | 'subscriber_not_found';

/** Batches that are not tried any more. A `client` finds its own letters only; root gives no client, and finds all. */
export class DeadLetters {
  readonly #store: Partition;
  readonly #revived: (token: string, events: number) => void;

  /** `revived` is called with how many events went back to whose queue. */
  constructor(store: Partition, revived: (token: string, events: number) => void) {
    this.#store = store;
    this.#revived = revived;
  }

  /** Up to `limit` letters of a subscriber, or of all, newest first; those `after` a place. */
  async list(subscriber: string | undefined, limit: number, after?: Place): Promise<Page> {
    return this.#store.command(async (redis, keys) => {
      const index = subscriber === undefined ? keys.dead_letters_index() : keys.dead_letters_of(subscriber);
      const max = limit + 1;
      const places = await (after ? following(redis, index, after, max) : newest(redis, index, max));
      const page = places.slice(0, limit);
      const read = await Promise.all(page.map(({ id }) => readLetter(redis, keys, id)));
      const next = places.length > limit ? page.at(-1) : undefined;
      // Letters may have been deleted since.
      return { letters: read.filter((letter) => letter !== undefined), ...(next && { next }) };
    });
  }

  /** One letter with the history of its attempts. */
  async find(id: string, client?: string): Promise<(DeadLetter & { history: AttemptReport[] }) | undefined> {
    const [letter, history] = await this.#store.command((redis, keys) =>
      Promise.all([readLetter(redis, keys, id), redis.lrange(keys.attempts(id), 0, -1)]),
    );
    if (!letter || (client !== undefined && client !== letter.subscriber)) return undefined;
    return { ...letter, history: history.map((attempt) => JSON.parse(attempt)) };
  }

  /**
   * The events of a letter, each as the JSON text that is delivered, or as `{"undecodable": base64}`. They are read a few at a
   * time, since they can be hundreds of megabytes. Throws dead_letter_not_found if the letter is deleted meanwhile.
   */
  async *events({ id, event_count }: DeadLetter): AsyncGenerator<string> {
    for (let at = BATCH_HEADER_LENGTH; at < BATCH_HEADER_LENGTH + event_count; at += EVENTS_SLICE) {
      const stored = await this.#store.command((redis, keys) =>
        redis.lrangeBuffer(keys.dead_letter(id), at, at + EVENTS_SLICE - 1),
      );
      if (stored.length === 0)
        throw new BusError('dead_letter_not_found', 'the dead letter was taken away while it was read');
      yield* stored.map(shown);
    }
  }

  /** Makes the letter a batch again, to be delivered at once. */
  async retry(id: string, client?: string): Promise<RetryOutcome> {
    const [outcome] = await this.#revive(client, [id]);
    return outcome ?? 'dead_letter_not_found';
  }

  /** Retries all letters of a subscriber that are dead now, oldest first. Answers how many; 0 if it has left. */
  async retryAll(token: string): Promise<number> {
    return this.#bySlices(token, await this.#latest(token), async (ids) => {
      const outcomes = await this.#revive(token, ids);
      if (outcomes.includes('subscriber_not_found')) return undefined;
      return outcomes.filter((outcome) => outcome === 'ok').length;
    });
  }

  /** Deletes the letter. False if there is none. */
  async purge(id: string, client?: string): Promise<boolean> {
    return (await this.#store.run('purge', { client, bids: [id] })) === 1;
  }

  /** Deletes all letters of a subscriber that are dead now, or that died until then. Answers how many. */
  async purgeAll(token: string, untilMs?: number): Promise<number> {
    return this.#bySlices(token, untilMs ?? (await this.#latest(token)), (ids) =>
      this.#store.run('purge', { client: token, bids: ids }),
    );
  }

  async #revive(client: string | undefined, bids: string[]): Promise<RetryOutcome[]> {
    const letters = await this.#store.run('revive', { client, bids });
    for (const { token, events } of letters) if (token !== undefined) this.#revived(token, events ?? 0);
    return letters.map(({ outcome }) => outcome);
  }

  /** When the newest letter of a subscriber died; one that is retried and dies again is newer. */
  async #latest(token: string): Promise<number> {
    const index = this.#store.keys.dead_letters_of(token);
    const [place] = await this.#store.command((redis) => newest(redis, index, 1));
    return place?.diedAtMs ?? 0;
  }

  /**
   * Takes letters that died until then away, until none is left. `take` has what it is given leave the index, and answers how
   * many of these were letters; undefined if they stay.
   */
  async #bySlices(
    token: string,
    untilMs: number,
    take: (ids: string[]) => Promise<number | undefined>,
  ): Promise<number> {
    const index = this.#store.keys.dead_letters_of(token);
    for (let total = 0; ; ) {
      const ids = await this.#store.command((redis) =>
        redis.zrangebyscore(index, '-inf', untilMs, 'LIMIT', 0, SLICE),
      );
      const taken = ids.length > 0 ? await take(ids) : undefined;
      total += taken ?? 0;
      if (taken === undefined || ids.length < SLICE) return total;
    }
  }
}

function shown(stored: Buffer): string {
  try {
    return eventJson(stored).toString();
  } catch {
    return JSON.stringify({ undecodable: stored.toString('base64') });
  }
}

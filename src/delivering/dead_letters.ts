import type { Config } from '../config.ts';
import { BusError } from '../errors.ts';
import { ownerOf } from '../ids.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { replies } from '../store/replies.ts';
import type { AttemptReport } from './attempt.ts';
import {
  type DeadLetter,
  following,
  newest,
  newestFirst,
  type Period,
  type Place,
  readLetters,
} from './dead_letter.ts';
import { eventSlices } from './event_slices.ts';
import type { DeathReason } from './settlement.ts';

/** Maximum dead letters that one script call retries or deletes. 100 take Redis a few milliseconds. */
const MAX_LETTERS_PER_CALL = 100;

/**
 * Maximum dead letters that one pipeline reads, so that the process serves other requests between two pipelines. A
 * pipeline sends all its commands in one write. Without pipelines, the three commands for each letter were three
 * writes, which took a quarter of a web process's time while a client read long lists.
 */
const READ_SLICE = 20;

/**
 * Maximum dead letters that are read for one page of the listing, if it shows only the letters of one reason. Without
 * this limit, a page for a rare reason would read all letters.
 */
const LOOKED = 500;

export interface LetterFilter extends Period {
  reason?: DeathReason | undefined;
}

interface FoundPlace {
  partition: Partition;
  place: Place;
}

type RetryOutcome = Reply<'revive'>[number]['outcome'];

/**
 * The dead letters of all subscribers. With the parameter `client`, a method finds only the dead letters of this
 * client and its joins.
 */
export class DeadLetters {
  readonly #partitions: Partitions;
  readonly #deliveryLog: number;
  readonly #revived: (token: string, events: number) => void;

  /**
   * The function `revived` is called with the number of events that returned to the queue of the subscriber `token`.
   */
  constructor(
    partitions: Partitions,
    { deliveryLog }: Pick<Config, 'deliveryLog'>,
    revived: (token: string, events: number) => void,
  ) {
    this.#partitions = partitions;
    this.#deliveryLog = deliveryLog;
    this.#revived = revived;
  }

  /**
   * Returns a page of up to `limit` dead letters, newest first: those of the given subscribers, or all if `subscribers`
   * is undefined. The page begins behind the place `after` (time of death and id). The result `next` is the `after` of
   * the next page, or absent on the last page. If only letters with one `reason` are wanted, at most LOOKED letters are
   * read, so the page may be short.
   */
  async list(
    subscribers: readonly string[] | undefined,
    limit: number,
    after?: Place,
    filter: LetterFilter = {},
  ) {
    const looked = filter.reason === undefined ? limit : Math.max(limit, LOOKED);
    const found = await this.#places(subscribers, looked + 1, after, filter);
    const seen = found.slice(0, looked);
    const matching = filter.reason === undefined ? seen : await ofReason(seen, filter.reason);
    const page = matching.slice(0, limit);
    const letters = await inSlices(page, (partition, ids) =>
      partition.command((redis, keys) => readLetters(redis, keys, ids)),
    );
    const end = matching.length > limit ? page : found.length > looked ? seen : [];
    const next = end.at(-1)?.place;
    // A letter may have been deleted since its place was read.
    return { letters: letters.filter((letter) => letter !== undefined), ...(next && { next }) };
  }

  async #places(
    subscribers: readonly string[] | undefined,
    max: number,
    after: Place | undefined,
    period: Period,
  ): Promise<FoundPlace[]> {
    const indexes = (subscribers ?? [undefined]).flatMap((token) =>
      this.#partitions.holding(token).map((partition) => [partition, token] as const),
    );
    const found = await Promise.all(
      indexes.map(([partition, token]) =>
        partition.command(async (redis, keys) => {
          const index = token === undefined ? keys.dead_letters_index() : keys.dead_letters_of(token);
          const places = await (after
            ? following(redis, index, after, max, period.sinceMs)
            : newest(redis, index, max, period));
          return places.map((place) => ({ partition, place }));
        }),
      ),
    );
    return found.flat().sort((one, other) => newestFirst(one.place, other.place));
  }

  /** Returns one dead letter with the history of its attempts, or undefined if it does not exist. */
  async find(id: string, client?: string): Promise<(DeadLetter & { history: AttemptReport[] }) | undefined> {
    for (const partition of this.#partitions.holding(client)) {
      const [[letter], history] = await partition.command((redis, keys) =>
        Promise.all([readLetters(redis, keys, [id]), redis.lrange(keys.attempts(id), 0, -1)]),
      );
      if (letter && (client === undefined || client === ownerOf(letter.subscriber)))
        return { ...letter, history: history.map((attempt) => JSON.parse(attempt)) };
    }
    return undefined;
  }

  /**
   * Yields the events of a dead letter. Each is the JSON text that is delivered, or `{"undecodable": base64}` if it
   * cannot be decoded. Throws dead_letter_not_found if the letter is deleted meanwhile.
   */
  async *events({ id, subscriber, event_count }: DeadLetter): AsyncGenerator<string> {
    const partition = this.#partitions.ofSubscriber(subscriber);
    let left = event_count;
    for await (const slice of eventSlices(partition, (keys) => keys.dead_letter(id), event_count)) {
      left -= slice.length;
      yield* slice;
    }
    if (left > 0)
      throw new BusError('dead_letter_not_found', 'the dead letter was taken away while it was read');
  }

  /** Turns a dead letter back into a batch, at the end of its subscriber's queue. */
  async retry(id: string, client?: string): Promise<RetryOutcome> {
    for (const partition of this.#partitions.holding(client)) {
      const [outcome] = await this.#revive(partition, await queueOf(partition, id, client), [id]);
      if (outcome !== undefined && outcome !== 'dead_letter_not_found') return outcome;
    }
    return 'dead_letter_not_found';
  }

  /**
   * Retries all dead letters that a subscriber has now, oldest first, and ends early if the subscriber leaves. Returns
   * how many were retried.
   */
  async retryAll(token: string): Promise<number> {
    return this.#bySlices(token, await this.#latest(token), async (partition, ids) => {
      const outcomes = await this.#revive(partition, token, ids);
      if (outcomes.includes('subscriber_not_found')) return undefined;
      return outcomes.filter((outcome) => outcome === 'ok').length;
    });
  }

  /** Deletes a dead letter. Returns false if it does not exist. */
  async purge(id: string, client?: string): Promise<boolean> {
    for (const partition of this.#partitions.holding(client))
      if ((await this.#purge(partition, await queueOf(partition, id, client), [id])) === 1) return true;
    return false;
  }

  /**
   * Deletes all dead letters that a subscriber has now. With `untilMs`, deletes only the letters that died by then.
   * Returns how many were deleted.
   */
  async purgeAll(token: string, untilMs?: number): Promise<number> {
    return this.#bySlices(token, untilMs ?? (await this.#latest(token)), (partition, ids) =>
      this.#purge(partition, token, ids),
    );
  }

  #purge(partition: Partition, client: string | undefined, bids: string[]): Promise<number> {
    return partition.run('purge', { client, deliveryLog: this.#deliveryLog, bids });
  }

  async #revive(partition: Partition, client: string | undefined, bids: string[]): Promise<RetryOutcome[]> {
    const letters = await partition.run('revive', { client, bids });
    for (const { token, events } of letters) if (token !== undefined) this.#revived(token, events ?? 0);
    return letters.map(({ outcome }) => outcome);
  }

  /**
   * Returns the time at which the newest dead letter of a subscriber died. Calls that retry or delete all letters leave
   * out letters that die later than this. Otherwise such a call might never end, because a retried letter may die
   * again.
   */
  async #latest(token: string): Promise<number> {
    const [place] = await this.#partitions
      .ofSubscriber(token)
      .command((redis, keys) => newest(redis, keys.dead_letters_of(token), 1));
    return place?.diedAtMs ?? 0;
  }

  /**
   * Calls `process` with up to MAX_LETTERS_PER_CALL ids of a subscriber's dead letters, until no letter is left that
   * died by `untilMs`. Returns the sum of the results. `process` must remove the ids from the subscriber's sorted set of
   * dead letters, because the next ids are read from it. If `process` returns undefined, the loop ends.
   */
  async #bySlices(
    token: string,
    untilMs: number,
    process: (partition: Partition, ids: string[]) => Promise<number | undefined>,
  ): Promise<number> {
    const partition = this.#partitions.ofSubscriber(token);
    for (let total = 0; ; ) {
      const ids = await partition.command((redis, keys) =>
        redis.zrangebyscore(keys.dead_letters_of(token), '-inf', untilMs, 'LIMIT', 0, MAX_LETTERS_PER_CALL),
      );
      const count = ids.length > 0 ? await process(partition, ids) : undefined;
      total += count ?? 0;
      if (count === undefined || ids.length < MAX_LETTERS_PER_CALL) return total;
    }
  }
}

/**
 * Returns the token that a script gets as the subscriber of the dead letter `id`. The script does not find a letter of
 * another subscriber.
 * - `client` is undefined (root calls): undefined. The script then finds any letter.
 * - The letter belongs to `client` or to one of its joins: the token of that client or join.
 * - Any other letter: `client`, so that the script does not find the letter.
 */
async function queueOf(partition: Partition, id: string, client: string | undefined) {
  if (client === undefined) return undefined;
  const token = await partition.command((redis, keys) => redis.lindex(keys.dead_letter(id), 0));
  return token !== null && ownerOf(token) === client ? token : client;
}

/**
 * Reads data of the dead letters at these places. Calls `read` with up to READ_SLICE ids at a time, so that other
 * requests are served in between. Resolves with what `read` returned for each letter, in the order of the places.
 */
async function inSlices<T>(
  places: readonly FoundPlace[],
  read: (partition: Partition, ids: string[]) => Promise<T[]>,
): Promise<T[]> {
  const found: T[] = [];
  for (let from = 0; from < places.length; from += READ_SLICE) {
    const slice = places.slice(from, from + READ_SLICE);
    const byId = new Map<string, T>();
    for (const [partition, some] of Map.groupBy(slice, (each) => each.partition)) {
      const ids = some.map(({ place }) => place.id);
      for (const [index, one] of (await read(partition, ids)).entries()) byId.set(ids[index] as string, one);
    }
    found.push(...slice.map(({ place }) => byId.get(place.id) as T));
  }
  return found;
}

async function ofReason(found: readonly FoundPlace[], wanted: DeathReason): Promise<FoundPlace[]> {
  const reasons = await inSlices(found, (partition, ids) =>
    partition.command((redis, keys) =>
      replies(redis.pipeline(ids.map((id) => ['hget', keys.dead_letter_about(id), 'reason']))),
    ),
  );
  return found.filter((_, index) => reasons[index] === wanted);
}

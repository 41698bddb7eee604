import type { Config } from '../../config.ts';
import { ownerOf } from '../../ids.ts';
import type { Reply } from '../../store/contracts.ts';
import type { Partition } from '../../store/partition.ts';
import { firstFound, type Partitions } from '../../store/partitions.ts';

/** Maximum dead letters that one script call retries or deletes. 100 take Redis a few milliseconds. */
const MAX_LETTERS_PER_CALL = 100;

type RetryOutcome = Reply<'revive'>[number]['outcome'];

/**
 * Retries and deletes dead letters; `Deliveries` in src/records/ reads them.
 */
export class DeadLetters {
  readonly #partitions: Partitions;
  readonly #deliveryLog: number;
  readonly #revived: (token: string, events: number) => void;

  /**
   * `revived` is called after a retry, with the number of events that returned to the queue of the subscriber `token`.
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

  /** Turns a dead letter back into a batch, at the end of its subscriber's queue. */
  async retry({ id, subscriber }: { id: string; subscriber: string }): Promise<RetryOutcome> {
    const partition = this.#partitions.ofSubscriber(subscriber);
    const [outcome] = await this.#revive(partition, subscriber, [id]);
    return outcome as RetryOutcome;
  }

  /**
   * Retries all dead letters that a subscriber has now, oldest first. Stops if the subscriber is removed meanwhile.
   * Returns how many were retried.
   */
  async retryAll(token: string): Promise<number> {
    return this.#bySlices(token, await this.#latest(token), async (partition, ids) => {
      const outcomes = await this.#revive(partition, token, ids);
      if (outcomes.includes('subscriber_not_found')) return undefined;
      return outcomes.filter((outcome) => outcome === 'ok').length;
    });
  }

  /**
   * Deletes a dead letter. If `client` is given, the letter must belong to this client or to a join of this client.
   * Returns false if there is no such dead letter.
   */
  async purge(id: string, client?: string): Promise<boolean> {
    const isPurged = await firstFound(this.#partitions.holding(client), async (partition) => {
      const token = await partition.command((redis, keys) => redis.lindex(keys.dead_letter(id), 0));
      const isOwn = client !== undefined && token !== null && ownerOf(token) === client;
      // If the script gets the token of a subscriber, it deletes only dead letters of this subscriber; otherwise it
      // deletes any. A client may also delete the dead letters of its joins. For such a letter, the script gets the
      // token of the join.
      return (await this.#purge(partition, isOwn ? token : client, [id])) === 1 || undefined;
    });
    return isPurged ?? false;
  }

  /** Deletes all dead letters that a subscriber has now, or those that died by `untilMs`. Returns their number. */
  async purgeAll(token: string, untilMs?: number): Promise<number> {
    return this.#bySlices(token, untilMs ?? (await this.#latest(token)), (partition, ids) =>
      this.#purge(partition, token, ids),
    );
  }

  #purge(partition: Partition, token: string | undefined, bids: string[]): Promise<number> {
    return partition.run('purge', { token, deliveryLog: this.#deliveryLog, bids });
  }

  async #revive(partition: Partition, token: string, bids: string[]): Promise<RetryOutcome[]> {
    const letters = await partition.run('revive', { token, bids });
    for (const letter of letters)
      if (letter.token !== undefined) this.#revived(letter.token, letter.events ?? 0);
    return letters.map(({ outcome }) => outcome);
  }

  /**
   * Returns the time (ms) at which the newest dead letter of a subscriber died, or 0 if there is none. A retry of all
   * dead letters leaves out those that die after this time. Otherwise it might never end, because a retried letter may
   * die again.
   */
  async #latest(token: string): Promise<number> {
    const [, diedAt] = await this.#partitions
      .ofSubscriber(token)
      .command((redis, keys) => redis.zrange(keys.dead_letters_of(token), '0', '0', 'REV', 'WITHSCORES'));
    return Number(diedAt ?? 0);
  }

  /**
   * Calls `process` with the ids of a subscriber's dead letters that died by `untilMs`, up to MAX_LETTERS_PER_CALL at a
   * time. Ends when none is left, or when `process` returns undefined. Returns the sum of the results. `process` must
   * retry or delete the letters: otherwise it would get the same ids again.
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

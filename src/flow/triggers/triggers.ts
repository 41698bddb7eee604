import { addCopy } from '../../authentication/client_copies.ts';
import { slicesOf } from '../../chunks.ts';
import type { Config } from '../../config.ts';
import { uid } from '../../ids.ts';
import type { Arguments, Reply } from '../../store/contracts.ts';
import type { Partition } from '../../store/partition.ts';
import { firstFound, type Partitions } from '../../store/partitions.ts';
import { msOf } from '../../store/replies.ts';
import { type Definition, definitionText, revisionOf } from './definition.ts';
import { finishMove } from './moving_trigger.ts';
import {
  allNames,
  namesOf,
  placeOf,
  readAll,
  type StoredTrigger,
  type TriggerName,
} from './stored_trigger.ts';

/** Maximum triggers that one pipeline reads. It is low because the definition of a trigger may have 70 KB. */
const TRIGGERS_PER_PIPELINE = 50;
/** Maximum attempts to store a definition while other calls keep replacing it. */
const MAX_TRIES = 10;

type TriggerLimits = Pick<Config, 'maxTriggers' | 'maxClientTriggers' | 'maxTopics' | 'maxClientTopics'> & {
  readonly maxClientTriggerBytes: number;
};

export interface Wanted {
  definition: Definition;
  isPaused: boolean;
  /** When the trigger fires next. If it is missing, the stored time stays. */
  nextAt?: number;
}

export type PutOutcome = Exclude<Reply<'put_trigger'>, 'conflict'>;

interface Found {
  partition: Partition;
  nowMs: number;
  stored: StoredTrigger | undefined;
}

/** The triggers of all clients. A trigger is stored in the partition of the topic to which it publishes. */
export class Triggers {
  readonly #partitions: Partitions;
  readonly #confirmed: Partitions;
  readonly #limits: TriggerLimits;

  /** Moves of triggers use `confirmed`, whose calls wait for ROUTEMASTER_MIN_REPLICAS replicas. */
  constructor(partitions: Partitions, limits: TriggerLimits, confirmed = partitions) {
    this.#partitions = partitions;
    this.#confirmed = confirmed;
    this.#limits = limits;
  }

  /** Finds a trigger, also while another partition is away. */
  async find(trigger: TriggerName): Promise<{ nowMs: number; stored: StoredTrigger } | undefined> {
    const find = () =>
      firstFound(this.#partitions.all, async (partition) => {
        const { nowMs, stored } = await this.#lookIn(partition, trigger);
        return stored && { nowMs, stored };
      });
    return (await find()) ?? (this.#mayMove ? find() : undefined);
  }

  /**
   * True if there are several partitions. A search may then miss a trigger that is moved meanwhile: the search asks the
   * new partition before the trigger arrives, and the old one after the trigger has left. So a search that finds
   * nothing is repeated.
   */
  get #mayMove(): boolean {
    return this.#partitions.all.length > 1;
  }

  async #lookIn(partition: Partition, trigger: TriggerName): Promise<Found> {
    const [time, [stored]] = await partition.command((redis, keys) =>
      Promise.all([redis.time(), readAll(redis, keys, [trigger])]),
    );
    return { partition, nowMs: msOf(time), stored };
  }

  /**
   * Creates or replaces a trigger, which then publishes to `topic`.
   * - `decide` gets the stored trigger, if there is one, and the time of Redis. It returns what to store. It is called
   *   again if another request changes the trigger meanwhile.
   * - `isFixed` is true if the setting ROUTEMASTER_CLIENTS names the client. Such a client is not in Redis, so the
   *   script must not look for it there.
   */
  async put(
    trigger: TriggerName,
    { isFixed, topic }: { isFixed: boolean; topic: string },
    decide: (stored: StoredTrigger | undefined, nowMs: number) => Wanted,
  ): Promise<PutOutcome> {
    const home = this.#partitions.ofTopic(topic);
    const { all, control } = this.#partitions;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { partition: from, stored, nowMs } = await this.#keepOne(trigger, home);
      const { definition, ...wanted } = decide(stored, nowMs);
      const args = {
        ...this.#limits,
        maxClientBytes: this.#limits.maxClientTriggerBytes,
        ...trigger,
        isFixed,
        topic,
        before: stored && revisionOf(stored.text),
        ...wanted,
        definition: definitionText(uid(), definition),
      };
      const isMove = from !== home;
      const outcome = isMove
        ? await this.#move(from, home, args)
        : await home.run('put_trigger', { ...args, step: 'put' });
      if (outcome === 'conflict') continue;
      const isUnknown = outcome === 'client_not_found' && home !== control;
      if (isUnknown && (await addCopy(control, home, trigger.client))) continue;
      // The trigger is new in `home`. Meanwhile another call may have stored it in another partition too: `#keepOne`
      // then leaves it in one of them. If another call has removed it everywhere, tries again.
      const isNewHere = outcome === 'created' || (outcome === 'changed' && isMove);
      if (isNewHere && all.length > 1 && !(await this.#keepOne(trigger, home)).stored) continue;
      return outcome;
    }
    throw new Error(`the trigger ${trigger.name} was replaced ${MAX_TRIES} times while it was to be`);
  }

  /**
   * Changes a trigger whose new topic is in another partition: stores the change in the old partition, and then moves
   * the trigger. If this process dies in between, a worker moves the trigger a second later.
   */
  async #move(
    from: Partition,
    home: Partition,
    args: Omit<Arguments<'put_trigger'>, 'step'>,
  ): Promise<Reply<'put_trigger'>> {
    const judged = await home.run('put_trigger', { ...args, before: undefined, step: 'judge' });
    if (judged !== 'created') return judged;
    const left = await from.run('put_trigger', { ...args, step: 'leave' });
    if (left === 'conflict') return left;
    return (await this.#finishMove(args, from)) ? 'changed' : 'client_not_found';
  }

  #finishMove(trigger: TriggerName, from: Partition): Promise<boolean> {
    return finishMove(trigger, from, this.#partitions, this.#confirmed);
  }

  /**
   * Makes sure that at most one partition has the trigger. Resolves with what was found in that partition. If no
   * partition has the trigger, resolves with what was found in `home`. An interrupted call, or two calls at the same
   * time, can leave the trigger in several partitions:
   * - If it has the field `moving` in one of them, and the partition of its new topic knows the client, this function
   *   moves it there. If that partition already has a trigger of this name, the script `receive_trigger` decides which
   *   of the two stays.
   * - In all other cases the trigger stays in the first partition that has it, and is removed from the others.
   */
  async #keepOne(trigger: TriggerName, home: Partition): Promise<Found> {
    for (let looks = 1; ; looks++) {
      const found = await Promise.all(this.#partitions.all.map((each) => this.#lookIn(each, trigger)));
      const there = found.filter(({ stored }) => stored);
      if (there.length === 0 && looks === 1 && this.#mayMove) continue;
      const moving = there.find(({ stored }) => stored?.state.moving);
      if (moving && (await this.#finishMove(trigger, moving.partition))) continue;
      const [kept = found[home.index] as Found, ...others] = there;
      if (others.length === 0) return kept;
      // Only one of these partitions may keep the trigger. The others remove it only if they still have the revision
      // that was found there: meanwhile another call may have moved the kept trigger to one of them.
      const remove = ({ partition, stored }: Found) =>
        partition.run('remove_trigger', {
          ...trigger,
          revision: stored && revisionOf(stored.text),
          isNoted: true,
        });
      await Promise.all(others.map(remove));
    }
  }

  /** Removes a trigger from all partitions. Returns false if none had it. */
  async remove(trigger: TriggerName): Promise<boolean> {
    const { all } = this.#partitions;
    const removeFromAll = async () => {
      const args = { ...trigger, isNoted: all.length > 1 };
      const removed = await Promise.all(all.map((partition) => partition.run('remove_trigger', args)));
      return removed.includes(true);
    };
    let found = await removeFromAll();
    if (all.length === 1) return found;
    // One round may miss a trigger that a worker is moving from partition A to partition B: it asks B before the
    // trigger arrives, and A after the trigger has left. So rounds are repeated until no partition had the trigger.
    // After that, the trigger may still be on its way to B. But B refuses it, because B was asked to remove it after
    // the worker had read it in A.
    while (await removeFromAll()) found = true;
    return found;
  }

  /**
   * Returns the names of the triggers of a client, or of all clients, sorted by name, then client. A trigger may be in
   * two partitions while it is moved, and is named once.
   */
  async names(client?: string): Promise<TriggerName[]> {
    const names = await Promise.all(
      this.#partitions.all.map((partition) =>
        client === undefined ? allNames(partition) : namesOf(partition, client),
      ),
    );
    const byPlace = new Map(names.flat().map((each) => [placeOf(each), each]));
    return [...byPlace.values()].sort((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1));
  }

  /** Returns the triggers with these names, in this order. Leaves out those that do not exist or cannot be read. */
  async read(names: readonly TriggerName[]): Promise<StoredTrigger[]> {
    const triggers: StoredTrigger[] = [];
    for (const slice of slicesOf(names, TRIGGERS_PER_PIPELINE)) {
      const found = await Promise.all(
        this.#partitions.all.map((partition) =>
          partition.command((redis, keys) => readAll(redis, keys, slice, partition.skip)),
        ),
      );
      triggers.push(...slice.flatMap((_, index) => found.map((each) => each[index]).find(Boolean) ?? []));
    }
    return triggers;
  }
}

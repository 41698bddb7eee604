import { clock } from '../../clock.ts';
import { StorageUnavailable } from '../../errors.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { usOf } from '../../store/replies.ts';
import { revisionOf, topicOfDefinition } from './definition.ts';
import { allNames, placeOf, readAll, type TriggerName, triggerAt } from './stored_trigger.ts';

/**
 * Maximum time between reading a moving trigger in its old partition and storing it in the new one. If more time has
 * passed, the new partition refuses the trigger. The reason: if the client deletes the trigger during the move, the new
 * partition remembers the deletion for only 30 s. If the new partition accepted the trigger later, the deleted trigger
 * would come back. So this time must be well below 30 s. If partitions are slow, `finishMove` permits more time.
 */
const MAX_AGE_MS = 1000;

/** A trigger as its old partition has it while it moves. */
interface Moving {
  definition: string;
  state: Record<string, string>;
}

/**
 * Finishes the move of a trigger from one partition to another, the *home* of its new topic:
 *
 *     old partition (`from`)                    home
 *     put_trigger sets the field `moving`
 *                                               1. tell the time: `seenUs`
 *     2. read the trigger
 *                                               3. receive_trigger stores it, unless the home has removed
 *                                                  a trigger of this name since `seenUs`
 *     4. remove_trigger
 *
 * A repeat is harmless, even by several processes at once. Does nothing if the trigger is gone or not moving.
 *
 * Returns false if the home refuses the trigger because it does not know the client, otherwise true. Throws
 * StorageUnavailable if the home refuses the trigger because it may be outdated: the home has removed this trigger
 * meanwhile, or the calls took too long. A refused trigger stays in `from`.
 *
 * Calls of `confirmed` wait until replicas have a change, before the next change is made. Otherwise a failover could
 * undo `moving`, so that both partitions fire the trigger, or could lose the copy in the home.
 */
export async function finishMove(
  trigger: TriggerName,
  from: Partition,
  partitions: Partitions,
  confirmed: Partitions,
): Promise<boolean> {
  const { client, name } = trigger;
  const beganMs = clock.monotonicMs();
  const text = await from.command((redis, keys) => redis.hget(keys.triggers_of(client), name));
  if (text === null) return true;
  const topic = topicOfDefinition(text);
  const seenUs = usOf(await partitions.ofTopic(topic).command((redis) => redis.time()));
  const maxAgeMs = Math.ceil(MAX_AGE_MS + 2 * (clock.monotonicMs() - beganMs));
  const moving = await readMoving(trigger, confirmed.all[from.index] as Partition);
  if (!moving || topicOfDefinition(moving.definition) !== topic) return true;
  if (!(await store(trigger, confirmed.ofTopic(topic), moving, { seenUs, maxAgeMs }))) return false;
  // If the trigger has another definition by now, this call does not remove it: its client may have stored a new
  // trigger of this name.
  await from.run('remove_trigger', { client, name, revision: revisionOf(moving.definition), isNoted: true });
  return true;
}

/** Reads a trigger, after replicas have what was written to it. Resolves with undefined if it is gone or not moving. */
async function readMoving({ client, name }: TriggerName, from: Partition): Promise<Moving | undefined> {
  const [definition, state] = await from.confirmedCommand((redis, keys) =>
    Promise.all([redis.hget(keys.triggers_of(client), name), redis.hgetall(keys.trigger(client, name))]),
  );
  return definition !== null && state.moving !== undefined ? { definition, state } : undefined;
}

/**
 * Stores a trigger in its home. Returns false if the home does not know the client. Throws StorageUnavailable if the
 * home has removed the trigger since `seenUs` (a time by the clock of the home), or if `seenUs` is more than `maxAgeMs`
 * ago.
 */
async function store(
  { client, name }: TriggerName,
  home: Partition,
  { definition, state }: Moving,
  age: { seenUs: number; maxAgeMs: number },
): Promise<boolean> {
  const outcome = await home.run('receive_trigger', {
    ...age,
    client,
    name,
    topic: topicOfDefinition(definition),
    definition,
    isFixed: state.moving === 'fixed',
    state: Object.entries(state).flat(),
  });
  if (outcome === 'late') {
    const why = `the trigger was changed meanwhile, or ${home.master.name} took too long`;
    throw new StorageUnavailable(undefined, why);
  }
  return outcome !== 'client_not_found';
}

/**
 * Removes triggers that are in several partitions, where they would fire several times. A failover can bring back a
 * moved trigger in its old partition. The trigger stays in the first partition, because the API shows that definition.
 * Skips partitions that are away, or whose triggers cannot be read.
 */
export async function removeDoubles(partitions: Partitions): Promise<void> {
  const read = async (partition: Partition) => {
    const triggers = (await allNames(partition).catch(partition.skip)) ?? [];
    return triggers.map((trigger) => ({ trigger, partition }));
  };
  const { found } = await partitions.reach(read);
  for (const [place, all] of Map.groupBy(found.flat(), ({ trigger }) => placeOf(trigger))) {
    const having = all.map(({ partition }) => partition);
    if (having.length > 1) await removeDouble(triggerAt(place), having);
  }
}

/** Removes a trigger from the partitions in `having` except the first that has it. */
async function removeDouble(trigger: TriggerName, having: readonly Partition[]): Promise<void> {
  const there: { partition: Partition; revision: string }[] = [];
  // Remove nothing while another process moves the trigger from the first partition to another one. Such a move first
  // sets the field `moving` in the first partition, then stores the trigger in the other one, and last removes it from
  // the first. So this loop reads the first partition last. If the loop found the trigger in the other partition
  // before, the first partition has the field `moving` by now, or no longer has the trigger.
  for (const partition of having.toReversed()) {
    const [stored] = await partition.command((redis, keys) =>
      readAll(redis, keys, [trigger], partition.skip),
    );
    if (stored?.state.moving) return;
    if (stored) there.unshift({ partition, revision: revisionOf(stored.text) });
  }
  for (const { partition, revision } of there.slice(1))
    await partition.run('remove_trigger', { ...trigger, revision, isNoted: true });
}

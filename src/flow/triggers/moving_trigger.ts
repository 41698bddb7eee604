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
 * partition remembers this for only 30 s. If it accepted the trigger later, the deleted trigger would come back. So
 * this time must be well below 30 s. If partitions are slow, `finishMove` permits more time.
 */
const MAX_AGE_MS = 1000;

/**
 * Finishes the move of a trigger from one partition to another, the *home* of its new topic. The script `put_trigger`
 * has begun the move by setting the field `moving` in `from`. This function copies the trigger to the home, and then
 * removes it from `from`. A repeat is harmless, even by several processes at once. Does nothing if the trigger is gone
 * or not moving.
 *
 * Returns false if the home refuses the trigger because it does not know the client, otherwise true. Throws
 * StorageUnavailable if the home refuses the trigger because the copy may be outdated (`late`): the home has removed
 * this trigger meanwhile, or the calls took too long. A refused trigger stays in `from`.
 *
 * Calls of `confirmed` wait until replicas have a change, before the next change is made. Otherwise a failover could
 * undo `moving`, so that both partitions fire the trigger, or could lose the copy in the home.
 */
export async function finishMove(
  { client, name }: TriggerName,
  from: Partition,
  partitions: Partitions,
  confirmed: Partitions,
): Promise<boolean> {
  const beganMs = clock.monotonicMs();
  const text = await from.command((redis, keys) => redis.hget(keys.triggers_of(client), name));
  if (text === null) return true;
  const topic = topicOfDefinition(text);
  const home = partitions.ofTopic(topic);
  // The home (the new partition) refuses the trigger if a client has removed it since `seenUs`, or if `seenUs` is too
  // long ago. So `seenUs` is by the clock of the home, and is taken before the trigger is read.
  const seenUs = usOf(await home.command((redis) => redis.time()));
  const maxAgeMs = Math.ceil(MAX_AGE_MS + 2 * (clock.monotonicMs() - beganMs));
  const [definition, state] = await (confirmed.all[from.index] as Partition).confirmedCommand((redis, keys) =>
    Promise.all([redis.hget(keys.triggers_of(client), name), redis.hgetall(keys.trigger(client, name))]),
  );
  const { moving } = state;
  if (definition === null || moving === undefined || topicOfDefinition(definition) !== topic) return true;
  const outcome = await confirmed.ofTopic(topic).run('receive_trigger', {
    client,
    name,
    topic,
    definition,
    isFixed: moving === 'fixed',
    seenUs,
    maxAgeMs,
    state: Object.entries(state).flat(),
  });
  if (outcome === 'client_not_found') return false;
  if (outcome === 'late') {
    const why = `the trigger was changed meanwhile, or ${home.master.name} took too long`;
    throw new StorageUnavailable(undefined, why);
  }
  // If the trigger has another definition by now, this call does not remove it: its client may have stored a new
  // trigger of this name.
  await from.run('remove_trigger', { client, name, revision: revisionOf(definition), isNoted: true });
  return true;
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
  // the first. So this loop reads the first partition last. If the other one had the trigger by then, the first has
  // `moving`, or has no trigger any more.
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

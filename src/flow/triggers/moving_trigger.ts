import { clock } from '../../clock.ts';
import { StorageUnavailable } from '../../errors.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { usOf } from '../../store/replies.ts';
import { revisionOf, topicOfDefinition } from './definition.ts';
import { allNames, placeOf, readAll, type TriggerName, triggerAt } from './stored_trigger.ts';

/**
 * Maximum time between reading a moving trigger in its old partition and storing it in the new one. A trigger that
 * arrives later is refused. It must be well below 30 s, the time for which the new partition remembers that a trigger
 * was removed. If partitions are slow, `finishMove` permits more time.
 */
const MAX_AGE_MS = 1000;

/**
 * Finishes the move of a trigger to another partition. The move begins when the script `put_trigger` gives the trigger
 * in `from` a topic whose home is another partition, and sets the field `moving`. This function copies the trigger with
 * its counts and times to that home, and then removes it from `from`.
 *
 * Does nothing with a trigger that is gone or not moving. Several processes can do this at the same time, and an
 * interrupted call can be repeated. Returns false if the home does not know the client. Throws StorageUnavailable if
 * the home refuses the trigger as `late`, because what was read in `from` may be outdated: the trigger was removed from
 * the home meanwhile, or the calls took too long. In these cases the trigger stays in `from`.
 *
 * Calls of `confirmed` wait for replicas (ROUTEMASTER_MIN_REPLICAS), so that a failover does no harm:
 * - Before the home gets the trigger, the replicas of `from` have the field `moving`. After a failover to a replica
 *   without this field, the trigger could fire in both partitions.
 * - Before `from` removes the trigger, the replicas of the home have it. Otherwise a failover of the home could lose
 *   the trigger.
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
  // The home must judge whether the trigger comes too late. So the time is taken from its clock, and before the trigger
  // is read.
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
  // If the trigger has another definition by now, it stays: its client may have stored a new trigger of this name.
  await from.run('remove_trigger', { client, name, revision: revisionOf(definition), isNoted: true });
  return true;
}

/**
 * If a trigger is in several partitions, and so fires in each, removes it from all but the first, whose definition the
 * API shows. This happens when a failover brings a moved trigger back in its old partition. Skips partitions that
 * cannot be reached, or whose triggers cannot be read.
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
  // If another process is moving the trigger from the first partition, A, to another one, B, then B must keep it. The
  // trigger in A gets the field `moving` before B gets the trigger. So A is read after B: if B had the trigger, the one
  // in A has `moving` by then, or is gone.
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

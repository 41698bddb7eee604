import { clock } from '../../clock.ts';
import { StorageUnavailable } from '../../errors.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { msOf } from '../../store/replies.ts';
import { revisionOf, topicOfDefinition } from './definition.ts';
import { allNames, placeOf, readAll, type TriggerName } from './stored_trigger.ts';

/**
 * Maximum time between reading a moving trigger in its old partition and storing it in the new one. A trigger that
 * arrives later is refused: another call may have moved it before, and its client may have deleted it. On slow
 * partitions the time is longer: `bringToTopic` adds twice the time that its first two calls take.
 */
const MAX_AGE_MS = 1000;

/**
 * If a trigger has the field `moving`, moves it from the partition `from` to the partition of its topic, with its
 * counts and times. Several processes can do this at the same time, and an interrupted call can be repeated. The
 * trigger stays in `from` if the other partition does not know its client: then returns false. It also stays if the
 * calls take too long: then throws StorageUnavailable.
 *
 * With ROUTEMASTER_MIN_REPLICAS, calls of `confirmed` wait for replicas. So the replicas of `from` have the field
 * `moving` before the other partition gets the trigger. Without it, the trigger could fire in both partitions after a
 * failover of `from`. And the replicas of the other partition have the trigger before it is removed from `from`, so a
 * failover there does not lose it.
 */
export async function bringToTopic(
  { client, name }: TriggerName,
  from: Partition,
  partitions: Partitions,
  confirmed: Partitions,
): Promise<boolean> {
  const beganMs = clock.monotonicMs();
  const before = await from.command((redis, keys) => redis.hget(keys.triggers_of(client), name));
  if (before === null) return true;
  const topic = topicOfDefinition(before);
  const home = partitions.ofTopic(topic);
  // The time just before the trigger is read, by the clock of the new partition. If the trigger arrives there more than
  // `maxAgeMs` later, the script `receive_trigger` refuses it.
  const seenMs = msOf(await home.command((redis) => redis.time()));
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
    seenMs,
    maxAgeMs,
    state: Object.entries(state).flat(),
  });
  if (outcome === 'client_not_found') return false;
  if (outcome === 'late') throw new StorageUnavailable(undefined, `${home.master.name} took too long`);
  // Removes the trigger from `from` if it still has the definition that was moved. Otherwise another process may have
  // moved the trigger already, and the client may have stored a new one of this name in `from`.
  await from.run('remove_trigger', { client, name, revision: revisionOf(definition) });
  return true;
}

/**
 * Removes triggers that are in several partitions from all of these but the first, whose definition the API shows. A
 * trigger is in two, and fires in both, if it was moved, and a failover then brought it back in its old partition.
 * Partitions that cannot be reached, or whose triggers cannot be read, are skipped.
 */
export async function removeDoubles(partitions: Partitions): Promise<void> {
  const holders = new Map<string, { trigger: TriggerName; having: Partition[] }>();
  const read = async (partition: Partition) => ({
    partition,
    names: (await allNames(partition).catch(partition.skip)) ?? [],
  });
  for (const { partition, names } of (await partitions.reach(read)).found)
    for (const trigger of names) {
      const having = holders.get(placeOf(trigger))?.having ?? [];
      holders.set(placeOf(trigger), { trigger, having: [...having, partition] });
    }
  for (const { trigger, having } of holders.values())
    if (having.length > 1) await removeDouble(trigger, having);
}

/** Removes a trigger from the partitions in `having` except the first that has it. */
async function removeDouble(trigger: TriggerName, having: readonly Partition[]): Promise<void> {
  const there: { partition: Partition; revision: string }[] = [];
  // Another process may just now be moving the trigger from the first partition to another one. Then the copy there
  // must stay. So the first partition is read last. If such a move has made a copy that was seen, the trigger in the
  // first has the field `moving` by then, or is gone.
  for (const partition of having.toReversed()) {
    const [stored] = await partition.command((redis, keys) =>
      readAll(redis, keys, [trigger], partition.skip),
    );
    if (stored?.state.moving) return;
    if (stored) there.unshift({ partition, revision: revisionOf(stored.text) });
  }
  for (const { partition, revision } of there.slice(1))
    await partition.run('remove_trigger', { ...trigger, revision });
}

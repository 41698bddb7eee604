import { clock } from '../../clock.ts';
import { StorageUnavailable } from '../../errors.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { msOf } from '../../store/replies.ts';
import { revisionOf, topicOfDefinition } from './definition.ts';
import { allNames, placeOf, readAll, type TriggerName } from './stored_trigger.ts';

/**
 * Maximum time between reading a moving trigger in its old partition and storing it in the new one. A trigger that
 * arrives later is refused, because it could be one that no longer exists: meanwhile another call may have moved it,
 * and its client may have deleted it. For slow partitions, `bringToTopic` adds twice the time that its first two calls
 * take.
 */
const MAX_AGE_MS = 1000;

/**
 * Moves a trigger that has the field `moving` from the partition `from` to the partition of its topic, with its counts
 * and times. Does nothing with other triggers. Several processes can do this at the same time, and an interrupted call
 * can be repeated. Returns false if the other partition does not know the client, and throws StorageUnavailable if the
 * calls take too long. In both cases the trigger stays in `from`.
 *
 * With ROUTEMASTER_MIN_REPLICAS, calls of `confirmed` wait for replicas, so that a failover does no harm:
 * - The replicas of `from` have the field `moving` before the other partition gets the trigger. A failover to a replica
 *   without this field could make the trigger fire in both partitions.
 * - The replicas of the other partition have the trigger before it is removed from `from`. Otherwise a failover there
 *   could lose it.
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
  // Removes the trigger from `from` only if it still has the definition that was moved. Another definition may be that
  // of a new trigger: another process has moved the old one, and the client has then stored a new one of this name.
  await from.run('remove_trigger', { client, name, revision: revisionOf(definition) });
  return true;
}

/**
 * Removes each trigger that is in several partitions from all of them but the first, whose definition the API shows. A
 * trigger comes to be in two partitions, and fires in both, if it is moved, and a failover then brings it back in the
 * old one. Skips partitions that cannot be reached, or whose triggers cannot be read.
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
  // Another process may just now be moving the trigger from the first partition, A, to another one, B. Then the trigger
  // in B must stay. So A is read last: if B had the trigger already, A has marked its own as `moving` by then, or has
  // removed it.
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

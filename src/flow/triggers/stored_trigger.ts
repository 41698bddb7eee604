import type { Keyspace } from '../../store/keys.ts';
import type { Commands, Partition } from '../../store/partition.ts';
import { pairsOf, replies } from '../../store/replies.ts';

export interface TriggerName {
  client: string;
  name: string;
}

/**
 * The fields of the hash `trigger:{token}:{name}`. `moving` is set while the trigger moves to the partition of its new
 * topic. Meanwhile both partitions may have the trigger. `error` says why the trigger last failed to publish, or why
 * the bus paused it.
 */
type State = Partial<
  Record<'paused' | 'moving' | 'next_at' | 'last_at' | 'fired' | 'missed' | 'error' | 'error_at', string>
>;

/** A trigger as Redis stores it. */
export interface StoredTrigger extends TriggerName {
  /** The definition of the trigger (topic, event and schedule), as the text that `definitionText` makes. */
  text: string;
  state: State;
}

/** Returns the member of the sorted set `triggers:due` that stands for a trigger. */
export function placeOf({ name, client }: TriggerName): string {
  return `${name} ${client}`;
}

/** Returns the trigger that a member of `triggers:due` stands for. */
export function triggerAt(place: string): TriggerName {
  const space = place.indexOf(' ');
  return { client: place.slice(space + 1), name: place.slice(0, space) };
}

export async function namesOf(partition: Partition, client: string): Promise<TriggerName[]> {
  const names = await partition.command((redis, keys) => redis.hkeys(keys.triggers_of(client)));
  return names.map((name) => ({ client, name }));
}

/**
 * Returns the names of all triggers. Reads them with several commands, because 100,000 names in one reply would block
 * Redis for 50 ms.
 */
export async function allNames(partition: Partition): Promise<TriggerName[]> {
  const members = new Set<string>();
  const scan = partition.scan((redis, keys, cursor) =>
    redis.zscan(keys.triggers_due(), cursor, 'COUNT', 1000),
  );
  for await (const slice of scan) for (const [member] of pairsOf(slice)) members.add(member);
  return [...members].map(triggerAt);
}

/**
 * Reads the triggers with these names, in this order. In the result, a trigger that does not exist is undefined. With
 * `skip` (`Partition.skip`), a trigger that cannot be read is undefined too.
 */
export async function readAll(
  redis: Commands,
  keys: Keyspace,
  names: readonly TriggerName[],
  skip?: (error: unknown) => undefined,
): Promise<(StoredTrigger | undefined)[]> {
  const values = await replies(
    redis.pipeline(
      names.flatMap(({ client, name }) => [
        ['hget', keys.triggers_of(client), name],
        ['hgetall', keys.trigger(client, name)],
      ]),
    ),
    skip,
  );
  return names.map((name, index) => {
    const [text, state] = values.slice(2 * index, 2 * index + 2) as [string | null, State | undefined];
    return text && state ? { ...name, text, state } : undefined;
  });
}

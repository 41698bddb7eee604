import { BootError } from '../errors.ts';
import { uid } from '../ids.ts';
import type { Partition } from '../store/partition.ts';
import { COUNT_KEY } from '../store/partition_count.ts';

/** The target of a move, and whether it is finished. The source (the old bus) stores this in its hash `move`. */
export interface StoredMove {
  /** The id of the move, which the target stores too. A move with another id refuses to write to this target. */
  id: string;
  /** The Redis and the prefix of the target, without the password. */
  to: string;
  partitions: number;
  /** When everything had been copied and compared, in ms by the clock of Redis. Undefined until then. */
  doneMs: number | undefined;
}

export function newMove(to: string, partitions: number): StoredMove {
  return { id: uid(), to, partitions, doneMs: undefined };
}

export async function readMove(source: Partition): Promise<StoredMove | undefined> {
  const stored = await source.command((redis, keys) => redis.hgetall(keys.move()));
  const { id, to = '', partitions, done_at } = stored;
  if (id === undefined) return undefined;
  const doneMs = done_at === undefined ? undefined : Number(done_at);
  return { id, to, partitions: Number(partitions), doneMs };
}

/**
 * Stores in the source that it is being moved, or was moved. From then on, no process of the bus starts on the source,
 * because events published there would not reach the target.
 */
export async function storeMove(source: Partition, { doneMs, ...stored }: StoredMove): Promise<void> {
  const fields = { ...stored, ...(doneMs !== undefined && { done_at: doneMs }) };
  await source.command((redis, keys) => redis.hset(keys.move(), fields));
}

/** Throws BootError if this bus was or is being moved, because events published here would not reach the target. */
export async function refuseMoved(partition: Partition): Promise<void> {
  const stored = await readMove(partition);
  if (!stored) return;
  const { to, partitions, doneMs } = stored;
  const what = doneMs === undefined ? 'is being moved' : `was moved on ${new Date(doneMs).toISOString()}`;
  // The keys that an operator must delete to use this bus again. COUNT_KEY is named because the target may have the
  // same Redis and prefix. Then this key has the target's number of partitions, with which this bus does not start. On
  // a cluster, the target cannot have the same Redis and prefix.
  const count = partition.master.isInCluster ? [] : [partition.prefix + COUNT_KEY];
  const keys = [partition.keys.move(), ...count].join(' ');
  throw new BootError(
    `This bus ${what} to ${partitions} partitions in ${to}. Events published here would not be there. ` +
      `To use this one again and give up the other: redis-cli DEL ${keys}. docs/scale.md has more.`,
  );
}

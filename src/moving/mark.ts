import { BootError } from '../errors.ts';
import { uid } from '../ids.ts';
import type { Partition } from '../store/partition.ts';

/** The mark of a move: the destination and the progress. The source has it in the hash `move`. */
export interface Mark {
  /** The id of the move. The target stores it too, so that no other move goes on filling it. */
  id: string;
  /** The Redis and the prefix of the target, without its password. */
  to: string;
  partitions: number;
  /** The scan cursor behind the copied keys, and the `run_id` of the Redis that returned this cursor. */
  cursor: string;
  run: string;
  /** When everything was copied (ms, clock of Redis). */
  doneMs: number | undefined;
}

export function newMark(to: string, partitions: number): Mark {
  return { id: uid(), to, partitions, cursor: '0', run: '', doneMs: undefined };
}

export async function readMark(source: Partition): Promise<Mark | undefined> {
  const {
    id,
    to = '',
    partitions,
    cursor = '0',
    run = '',
    done_at,
  } = await source.command((redis, keys) => redis.hgetall(keys.move()));
  if (id === undefined) return undefined;
  const doneMs = done_at === undefined ? undefined : Number(done_at);
  return { id, to, partitions: Number(partitions), cursor, run, doneMs };
}

/** Stores the mark. From then on no process starts on this bus. */
export async function storeMark(source: Partition, { doneMs, ...mark }: Mark): Promise<void> {
  const fields = { ...mark, ...(doneMs !== undefined && { done_at: doneMs }) };
  await source.command((redis, keys) => redis.hset(keys.move(), fields));
}

/**
 * Throws BootError if this bus was moved or is being moved: events that it accepted now would not reach the new bus.
 */
export async function refuseMoved(partition: Partition): Promise<void> {
  const mark = await readMark(partition);
  if (!mark) return;
  const { to, partitions, doneMs } = mark;
  const what = doneMs === undefined ? 'is being moved' : `was moved on ${new Date(doneMs).toISOString()}`;
  throw new BootError(
    `This bus ${what} to ${partitions} partitions in ${to}. Events published here would not be there. ` +
      `To use this one again and give up the other: redis-cli DEL ${partition.keys.move()}. docs/scale.md has more.`,
  );
}

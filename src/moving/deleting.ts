import { BootError } from '../errors.ts';
import { sumOf } from '../sum.ts';
import { scanned } from './scanning.ts';
import type { Side } from './side.ts';
import { readMove } from './stored_move.ts';

/**
 * Deletes the data of a bus that was moved elsewhere. Keeps the key `move`, so that no process starts on this bus.
 * Returns the number of deleted keys. Throws BootError unless the move is finished.
 */
export async function deleteMoved({ partitions }: Side): Promise<number> {
  const { control: source } = partitions;
  const stored = await readMove(source);
  if (stored?.doneMs === undefined) throw new BootError('This bus was not moved, so nothing is deleted.');
  let deleted = 0;
  for await (const keys of scanned([source])) {
    const others = keys.filter(({ name }) => name !== 'move');
    deleted += sumOf(
      await source.command((redis) => Promise.all(others.map(({ key }) => redis.unlink(key)))),
    );
  }
  return deleted;
}

import { setImmediate as nextTurn } from 'node:timers/promises';

/** Yields the entries of a list in chunks of at most `size`. The event loop handles other work between two chunks. */
export async function* chunksOf<T>(all: readonly T[], size: number): AsyncGenerator<readonly T[]> {
  for (let from = 0; from < all.length; from += size) {
    if (from > 0) await nextTurn();
    yield all.slice(from, from + size);
  }
}

export function* slicesOf<T>(all: readonly T[], size: number): Generator<T[]> {
  for (let from = 0; from < all.length; from += size) yield all.slice(from, from + size);
}

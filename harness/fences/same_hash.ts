const CHARACTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~';
const ID_LENGTH = 64;
const BLOCK_LENGTH = 4;

/** Returns Lua's hash of a text with ASCII characters, as Redis computes it: of all characters, the last one first. */
export function luaHash(text: string): number {
  return hashed(text, text.length);
}

function hashed(text: string, start: number): number {
  let hash = start;
  for (let at = text.length - 1; at >= 0; at--)
    hash = (hash ^ (((hash << 5) >>> 0) + (hash >>> 2) + text.charCodeAt(at))) >>> 0;
  return hash;
}

/**
 * Returns up to 65,536 ids of 64 characters. All texts that consist of `before`, one of these ids and `after` have the
 * same hash in Lua.
 */
export function idsOfSameHash(count: number, before: string, after: string): string[] {
  const length = before.length + ID_LENGTH + after.length;
  let hash = hashed(after, length);
  const pairs: [string, string][] = [];
  for (let block = 0; block < ID_LENGTH / BLOCK_LENGTH; block++) {
    const pair = blocksOfSameHash(hash);
    hash = hashed(pair[0], hash);
    pairs.push(pair);
  }
  // Each bit of `n` chooses one block of a pair. The first pair is the end of the id.
  return Array.from({ length: count }, (_, n) =>
    pairs.reduce((id, [one, other], block) => ((n >> block) & 1 ? other : one) + id, ''),
  );
}

/** Finds two blocks of characters that lead from the state `hash` to the same state. About 80,000 are tried. */
function blocksOfSameHash(hash: number): [string, string] {
  const blocks = new Map<number, string>();
  for (;;) {
    const block = Array.from(
      { length: BLOCK_LENGTH },
      () => CHARACTERS[Math.floor(Math.random() * CHARACTERS.length)],
    ).join('');
    const next = hashed(block, hash);
    const other = blocks.get(next);
    if (other !== undefined && other !== block) return [other, block];
    blocks.set(next, block);
  }
}

/** What a person should do if another program has written keys of the bus. */
export const FIND_AND_RENAME = 'Find them with redis-cli SCAN, MATCH and TYPE, and rename them';

/** True if Redis refused a command because a key has another type. Another program must have written that key. */
export function isWrongType(error: unknown): boolean {
  return error instanceof Error && /\bWRONGTYPE\b/.test(error.message);
}

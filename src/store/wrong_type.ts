import type { Redis } from 'ioredis';
import { BusError } from '../errors.ts';
import { LAYOUT } from './keys.ts';

/** What a person should do if another program has written keys of the bus. */
export const FIND_AND_RENAME = 'Find them with redis-cli SCAN, MATCH and TYPE, and rename them';

/** True if Redis refused a command because a key has another type. Another program must have written that key. */
export function isWrongType(error: unknown): boolean {
  return error instanceof Error && /\bWRONGTYPE\b/.test(error.message);
}

/**
 * Thrown in place of an error WRONGTYPE of Redis, which does not name the key. `wrong` has what `wrongBusKeys` found.
 * If that is nothing, a key of one client, topic or batch must be the cause. To find it, Redis would have to be
 * scanned.
 */
export class WrongType extends BusError {
  constructor(cause: unknown, wrong: readonly string[]) {
    const detail =
      wrong.length > 0
        ? `another program has written keys of the bus: ${wrong.join('; ')} (WRONGTYPE). An operator must rename them`
        : 'another program has written a key of the bus (WRONGTYPE); the log of the worker names it at the next sweep';
    super('internal', detail, { cause });
    this.name = 'WrongType';
  }
}

/** Says of a key, or of a pattern of keys, that it has another type than in LAYOUT. */
export function typeText(pattern: string, type: string, expected: string): string {
  return `${pattern} is a ${type} instead of a ${expected}`;
}

const BUS_KEYS = Object.values(LAYOUT).filter(({ pattern }) => !pattern.includes('{'));

/** Returns a text for each key of the whole bus, such as `topics`, whose type differs from LAYOUT. */
export async function wrongBusKeys(redis: Redis, prefix: string): Promise<string[]> {
  const types = await Promise.all(BUS_KEYS.map(({ pattern }) => redis.type(prefix + pattern)));
  return BUS_KEYS.flatMap(({ pattern, type: expected }, index) => {
    const type = types[index] ?? 'none';
    return type === expected || type === 'none' ? [] : [typeText(prefix + pattern, type, expected)];
  });
}

import { BootError, StorageForbidden } from '../errors.ts';
import { foundKey } from './found_key.ts';
import { LAYOUT } from './keys.ts';
import type { Partition } from './partition.ts';
import { FIND_AND_RENAME, isWrongType, typeText } from './wrong_type.ts';

const TYPES = new Set(Object.values(LAYOUT).map(({ type }) => type));
const KEYS_PER_SCAN = 1000;

/**
 * Returns a line for each pattern of keys whose type differs from LAYOUT, such as `batches:index:{token} is a string
 * instead of a zset (2 keys)`. A line has the pattern and not the keys, because a token in a key can be a credential.
 * Call this only after an error, because it scans Redis once for each type in LAYOUT.
 */
export async function wrongTypes(partition: Partition): Promise<string[]> {
  const { prefix } = partition;
  const counts = new Map<string, number>();
  for (const type of TYPES) {
    const scan = partition.scan((redis, _, cursor) =>
      redis.scan(cursor, 'MATCH', `${prefix}*`, 'COUNT', KEYS_PER_SCAN, 'TYPE', type),
    );
    for await (const keys of scan)
      for (const key of keys) {
        const found = foundKey(key, prefix);
        if (!found || LAYOUT[found.name].type === type) continue;
        const expected = LAYOUT[found.name];
        const text = typeText(prefix + expected.pattern, type, expected.type);
        counts.set(text, (counts.get(text) ?? 0) + 1);
      }
  }
  return [...counts].map(([text, count]) => `${text} (${count} ${count === 1 ? 'key' : 'keys'})`);
}

/**
 * Returns a sentence that says what the ACL must grant to the Redis user: the pattern of the keys, the pattern of the
 * channels, or a command. Returns an empty text if `message`, an error of Redis, is about none of the three.
 */
function whatToGrant(message: string, prefix: string): string {
  // `prefix` may end with the hash tag of a partition, such as `{0}:`. The Redis user needs the keys of all partitions,
  // so the granted pattern has `*` in place of the tag.
  const [begin, ...tags] = prefix.split('{');
  if (/access .*\bkeys?\b/.test(message)) {
    const keys = prefix === '' ? 'have no prefix' : `begin with "${prefix}"`;
    return (
      `Keys of the bus ${keys}: the ACL and ROUTEMASTER_REDIS_PREFIX do not fit. ` +
      `Grant ~${begin}* to the Redis user, or correct the prefix; `
    );
  }
  if (/(?:access|publish to) .*\bchannels?\b/.test(message))
    return `Grant &${begin}${tags.length > 0 ? '*' : ''}wake* to the Redis user, or correct the prefix; `;
  const [, inScript, alone] = /can't run ([A-Z]+)$|the '(.+)' command/.exec(message) ?? [];
  const command = (inScript ?? alone)?.toLowerCase();
  return command === undefined ? '' : `Grant +${command} to the Redis user; `;
}

/**
 * Throws a BootError if only a person can mend the cause of `error`, an error of Redis: the ACL forbids a command, or
 * keys have wrong types. Otherwise throws `error`.
 */
export async function throwForOperator(partitions: readonly Partition[], error: unknown): Promise<never> {
  const cause = { cause: error };
  if (error instanceof StorageForbidden) {
    // The error of a script ends with the name of a function, which tells an operator nothing.
    const message = (error.cause as Error).message.replace(/ script: .*/s, '');
    const grant = whatToGrant(message, partitions[0]?.prefix ?? '');
    const acl = 'docs/operating.md has the ACL that the bus needs; a move needs what docs/scale.md has';
    throw new BootError(`Redis says: ${message}. ${grant}${acl}.`, cause);
  }
  const wrong = isWrongType(error) ? (await Promise.all(partitions.map(wrongTypes))).flat() : [];
  if (wrong.length === 0) throw error;
  throw new BootError(
    `Another program has written keys of the bus: ${wrong.join('; ')}. ${FIND_AND_RENAME}. ` +
      'Give the bus a Redis or a ROUTEMASTER_REDIS_PREFIX of its own.',
    cause,
  );
}

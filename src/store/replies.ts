/** A pipeline or a transaction of ioredis. */
interface Commands {
  exec(): Promise<[error: Error | null, reply: unknown][] | null>;
}

/**
 * Sends the commands and returns their replies. Throws the error of the first command that failed, because the error of
 * EXEC does not say what failed. With `skip`, such as `Partition.skip`, a failed command does not end the call: `skip`
 * gets its error, and what `skip` returns takes the place of the reply.
 */
export async function replies(
  commands: Commands,
  skip: (error: Error) => unknown = rethrow,
): Promise<unknown[]> {
  const outcomes = await commands.exec().catch((error: { previousErrors?: Error[] }) => {
    throw error.previousErrors?.[0] ?? error;
  });
  return (outcomes ?? []).map(([error, reply]) => (error ? skip(error) : reply));
}

function rethrow(error: Error): never {
  throw error;
}

/**
 * Makes an object from fields of a hash: `names` are the fields, and `values` their values, in the same order. Leaves
 * out missing values, which are null in a reply of HMGET, and false in a reply of a script.
 */
export function namedFields<Name extends string>(
  names: readonly Name[],
  values: readonly (string | null | false)[],
): Partial<Record<Name, string>> {
  const hash: Partial<Record<Name, string>> = {};
  for (const [index, name] of names.entries()) {
    const value = values[index];
    if (typeof value === 'string') hash[name] = value;
  }
  return hash;
}

/** Returns the pairs of a flat reply: a field and its value or, for a sorted set, a member and its score. */
export function pairsOf<T>(flat: readonly T[]): [T, T][] {
  return Array.from({ length: flat.length / 2 }, (_, index) => [
    flat[2 * index] as T,
    flat[2 * index + 1] as T,
  ]);
}

/** Converts a reply of the Redis command TIME to ms. */
export function msOf(time: readonly (string | number)[]): number {
  return Math.floor(usOf(time) / 1000);
}

/** Converts a reply of the Redis command TIME to µs. */
export function usOf([seconds, micros]: readonly (string | number)[]): number {
  return Number(seconds) * 1_000_000 + Number(micros);
}

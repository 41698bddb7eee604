/** A pipeline or a transaction of ioredis. */
interface Commands {
  exec(): Promise<[error: Error | null, reply: unknown][] | null>;
}

/**
 * Sends the commands and returns their replies. If a command fails, throws the error of the first one that failed,
 * because the error of EXEC itself would not say why it failed.
 */
export async function replies(commands: Commands): Promise<unknown[]> {
  const outcomes = await commands.exec().catch((error: { previousErrors?: Error[] }) => {
    throw error.previousErrors?.[0] ?? error;
  });
  return (outcomes ?? []).map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
}

/**
 * Gives values of a hash the names of their fields. `names` and `values` have the same order. Values that the hash does
 * not have are left out: null in the reply of HMGET, false in what a script has packed.
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

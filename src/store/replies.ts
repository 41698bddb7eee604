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

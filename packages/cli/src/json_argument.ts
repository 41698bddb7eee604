import { buffer } from 'node:stream/consumers';
import { type Call, readGiven, UsageError } from './command.ts';

/**
 * Resolves with the JSON text that `given` stands for: itself, or `@FILE` for a file, or `-` for stdin. Throws
 * UsageError if that is not JSON. The error names the argument as `name`.
 */
export async function jsonArgument(call: Call, name: string, given: string): Promise<string> {
  const isFile = given.startsWith('@');
  const bytes =
    given === '-' ? await buffer(call.streams.stdin) : isFile ? await readGiven(given.slice(1)) : undefined;
  if ((bytes ?? given).length === 0) throw new UsageError(`${name} is empty; give JSON`);
  try {
    const json = bytes ? new TextDecoder('utf-8', { fatal: true }).decode(bytes) : given;
    JSON.parse(json);
    return json;
  } catch (error) {
    throw new UsageError(`${name} is not JSON: ${(error as Error).message}`);
  }
}

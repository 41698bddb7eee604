import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';

/** Thrown for a wrong command line; the message says what to change. */
export class UsageError extends Error {}

/** Returns the values of these options. Throws UsageError for anything else on the command line. */
export function readCommandLine<T extends ParseArgsOptionsConfig>(args: string[], options: T) {
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Returns a whole number above 0. Throws UsageError for any other text. */
export function readCount(option: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text);
  throw new UsageError(`${option} must be a whole number above 0`);
}

/**
 * Runs `npm run <name>`. The exit code is 0 if `main` resolves with true, 1 if with false, and 2 if it
 * throws.
 */
export async function runCommand(name: string, main: () => Promise<boolean>): Promise<void> {
  try {
    process.exitCode = (await main()) ? 0 : 1;
  } catch (error) {
    process.stderr.write(`${name}: ${error instanceof Error ? error.message : error}\n`);
    if (error instanceof UsageError) process.stderr.write(`See npm run ${name} -- --help\n`);
    process.exitCode = 2;
  }
}

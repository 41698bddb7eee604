import { readFileSync } from 'node:fs';
import type { Call } from './command.ts';

/** Prints the version in package.json, which is beside the folder of the sources, and of what they are compiled to. */
export async function printVersion(call: Call): Promise<void> {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  call.print({ version }, [version]);
}

import { readFileSync } from 'node:fs';
import type { Call } from './command.ts';

/** Prints the version in package.json, which is one folder above this file, even when this file is compiled. */
export async function printVersion(call: Call): Promise<void> {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  call.print({ version }, [version]);
}

import { readFileSync } from 'node:fs';
import type { Call } from './command.ts';

/** Prints the version in package.json, which is in the folder above both `src/` and the compiled `dist/`. */
export async function printVersion(call: Call): Promise<void> {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  call.print({ version }, [version]);
}

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A setting as process.loadEnvFile reads it: a value in quotes may have several lines. */
const SETTING = /^[ \t]*(?:export[ \t]+)?[\w.-]+[ \t]*=[ \t]*(?:"[^"]*"|'[^']*'|`[^`]*`)?.*$/gm;

/** Reads `.env`; the environment has precedence. Says which lines are no settings. */
export function readEnvFile(root: string): void {
  const envFile = join(root, '.env');
  if (!existsSync(envFile)) return;
  process.loadEnvFile(envFile);
  for (const line of strayLines(readFileSync(envFile, 'utf8')))
    console.error(`start: line ${line} of .env is ignored, because it is not like NAME=value`);
}

/** Returns the numbers of the lines that are neither settings nor comments. Their text may be a secret. */
export function strayLines(text: string): number[] {
  const others = text.replace(SETTING, (setting) => setting.replace(/[^\n]/g, '')).split('\n');
  return others.flatMap((line, index) => (/^\s*(#|$)/.test(line) ? [] : [index + 1]));
}

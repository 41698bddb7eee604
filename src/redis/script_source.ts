import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fixedText, type KeyName, LAYOUT, WAKE_CHANNEL } from './keys.ts';

const DIRECTORY = join(import.meta.dirname, '../../lua');

/** A key as a script's header names it. */
export interface HeaderKey {
  pattern: string;
  type: string;
}

/** A script, ready for Redis, with what its header says. */
export interface ScriptSource {
  name: string;
  lua: string;
  flags: string[];
  keys: HeaderKey[];
  touches: HeaderKey[];
  /** The script with its includes, without what the loader generates. */
  body: string;
}

/** All scripts of `lua/`, by name. Throws if a header cannot be read. */
export function readScripts(): ScriptSource[] {
  const files = readdirSync(DIRECTORY).filter((file) => file.endsWith('.lua'));
  return files
    .sort()
    .map((file) => parse(file.slice(0, -'.lua'.length), readFileSync(join(DIRECTORY, file), 'utf8')));
}

function parse(name: string, text: string): ScriptSource {
  const match = /^(#!lua(?: flags=(\S+))?)\n--\[\[\n(\w+): [\s\S]*?\n\]\]\n([\s\S]*)$/.exec(text);
  if (match?.[3] !== name)
    throw new Error(`lua/${name}.lua does not begin with a shebang and a header of its name`);
  const [, shebang, flags, , rest = ''] = match;
  const body = rest.replace(/^-- include: (\w+)$/gm, (_, include: string) =>
    readFileSync(join(DIRECTORY, 'include', `${include}.lua`), 'utf8').trimEnd(),
  );
  return {
    name,
    lua: `${shebang}\n${prelude(body)}\n${body}`,
    flags: flags?.split(',') ?? [],
    keys: section(text, 'KEYS'),
    touches: section(text, 'TOUCHES'),
    body,
  };
}

/** The lines of a header's section: a key's pattern, its Redis type, and words that only people read. */
function section(text: string, title: string): HeaderKey[] {
  const lines = new RegExp(`^${title}\\n((?: {2}.*\\n)*)`, 'm').exec(text)?.[1] ?? '';
  return [...lines.matchAll(/^ {2}(\S+) +(\S+)/gm)].map(([, pattern = '', type = '']) => ({ pattern, type }));
}

/** The partition's prefix, and a function for every key that the body uses, generated from the layout. */
function prelude(body: string): string {
  const used = new Set([...body.matchAll(/\bkey\.(\w+)/g)].map(([, name]) => name as KeyName));
  const functions = [...used].map((name) => `${name} = ${keyFunction(name)}`);
  return [
    `local P = KEYS[1]:sub(1, -${LAYOUT.schema.pattern.length + 1})`,
    `local wake_channel = P .. '${WAKE_CHANNEL}'`,
    `local key = { ${functions.join(', ')} }`,
  ].join('; ');
}

function keyFunction(name: KeyName): string {
  const key = LAYOUT[name];
  if (!key) throw new Error(`a script uses key.${name}, which src/redis/keys.ts does not have`);
  const text = fixedText(key.pattern);
  const parts = text.slice(1).map((_, index) => `p${index}`);
  const glued = text.flatMap((piece, index) => [`'${piece}'`, ...(parts[index] ? [parts[index]] : [])]);
  return `function(${parts.join(', ')}) return P .. ${glued.filter((piece) => piece !== "''").join(' .. ')} end`;
}

import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
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
  /** Of the file, from the project's root. */
  path: string;
  lua: string;
  flags: string[];
  keys: HeaderKey[];
  touches: HeaderKey[];
  /** The script with what it uses of its includes, without comments, and without what the loader generates. */
  body: string;
}

/** All scripts of `lua/`, by name. Throws if a header cannot be read. */
export function readScripts(): ScriptSource[] {
  const files = globSync('*/*.lua', { cwd: DIRECTORY, exclude: ['include/**'] });
  return files
    .sort((a, b) => (basename(a) < basename(b) ? -1 : 1))
    .map((file) => parse(file, readFileSync(join(DIRECTORY, file), 'utf8')));
}

function parse(file: string, text: string): ScriptSource {
  const name = basename(file, '.lua');
  const match = /^(#!lua(?: flags=(\S+))?)\n--\[\[\n(\w+): [\s\S]*?\n\]\]\n([\s\S]*)$/.exec(text);
  if (match?.[3] !== name)
    throw new Error(`lua/${file} does not begin with a shebang and a header of its name`);
  const [, shebang, flags, , rest = ''] = match;
  const whole = rest.replace(/^-- include: (\w+)$/gm, (_, include: string) =>
    readFileSync(join(DIRECTORY, 'include', `${include}.lua`), 'utf8').trimEnd(),
  );
  const body = withoutUnused(whole.replace(/^ *--.*\n/gm, ''));
  return {
    name,
    path: `lua/${file}`,
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

/** Lua makes all functions of a script anew at each call, so those that it does not use are left out. */
function withoutUnused(body: string): string {
  const functions = [...body.matchAll(/^local function (\w+)\(.*\)\n(?:(?!end$).*\n)*end$/gm)];
  const uses = (text: string, name: string) => text.match(new RegExp(`\\b${name}\\b`, 'g'))?.length ?? 0;
  const unused = functions.filter(([text, name = '']) => uses(body, name) === uses(text, name));
  if (unused.length === 0) return body;
  return withoutUnused(unused.reduce((less, [text]) => less.replace(text, () => ''), body));
}

/** The partition's prefix, and a function for every key that the body uses, generated from the layout. */
function prelude(body: string): string {
  const used = new Set([...body.matchAll(/\bkey\.(\w+)/g)].map(([, name]) => name as KeyName));
  const functions = [...used].map((name) => `${name} = ${keyFunction(name)}`);
  return [
    `local P = KEYS[1]:sub(1, -${LAYOUT.schema.pattern.length + 1})`,
    `local wake_channel = P .. '${WAKE_CHANNEL}'`,
    `local key = { ${functions.join(', ')} }`,
  ].join('\n');
}

function keyFunction(name: KeyName): string {
  const key = LAYOUT[name];
  if (!key) throw new Error(`a script uses key.${name}, which src/store/keys.ts does not have`);
  const text = fixedText(key.pattern);
  const parts = text.slice(1).map((_, index) => `p${index}`);
  const glued = text.flatMap((piece, index) => [`'${piece}'`, ...(parts[index] ? [parts[index]] : [])]);
  return `function(${parts.join(', ')}) return P .. ${glued.filter((piece) => piece !== "''").join(' .. ')} end`;
}

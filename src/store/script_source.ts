import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import {
  DEFAULT_MAX_BYTES,
  DEFAULT_MAX_EVENTS,
  DEFAULT_TIMEOUT_MS,
  PERFECT_HEALTH,
} from '../subscription_defaults.ts';
import type { Contract } from './contract.ts';
import { luaArguments, luaReply } from './contract_lua.ts';
import { contracts } from './contracts.ts';
import { CHANNELS, DECLARED_KEY, fixedText, LAYOUT } from './keys.ts';

const DIRECTORY = join(import.meta.dirname, '../../lua');

/** The module that every script needs: it makes the table `call`, the first parameter of a script. */
const CALLS = 'calls';

/**
 * The text of the module `defaults`. It is made here from subscription_defaults.ts, and has no file in
 * `lua/shared/`.
 */
const DEFAULTS = [
  'return {',
  `timeout_ms = ${DEFAULT_TIMEOUT_MS}, max_events = ${DEFAULT_MAX_EVENTS}, max_bytes = ${DEFAULT_MAX_BYTES},`,
  `perfect_health = ${PERFECT_HEALTH},`,
  '}\n',
].join('\n');

/**
 * A file of `lua/`. The code of a script returns a function; that of a module in `lua/shared/` returns a
 * table of functions.
 */
interface LuaFile {
  name: string;
  /** The path from the root of the project. */
  path: string;
  text: string;
}

export interface ScriptSource extends LuaFile {
  contract: Contract;
  flags: string[];
  /** The modules that the script uses. Each comes after the modules that it includes. */
  modules: LuaFile[];
}

/** Reads all scripts, sorted by name. Throws if a script has no contract, or a contract has no script. */
export function readScripts(): ScriptSource[] {
  const paths = globSync('*/*.lua', { cwd: DIRECTORY, exclude: ['shared/**'] });
  const nameOf = (path: string) => basename(path, '.lua');
  const unmatched = new Set(paths.map(nameOf)).symmetricDifference(new Set(Object.keys(contracts)));
  if (unmatched.size > 0) throw new Error(`contracts and lua/ disagree about ${[...unmatched]}`);
  const pathOf = new Map(paths.map((path) => [nameOf(path), path]));
  return Object.entries(contracts)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, contract]) => readScript(name, String(pathOf.get(name)), contract));
}

function readScript(name: string, path: string, contract: Contract): ScriptSource {
  const whole = readFileSync(join(DIRECTORY, path), 'utf8');
  const [, flags, text] = /^#!lua(?: flags=(\S+))?\n([\s\S]*)$/.exec(whole) ?? [];
  if (text === undefined) throw new Error(`lua/${path} does not begin with #!lua`);
  return {
    name,
    path: `lua/${path}`,
    text,
    contract,
    flags: flags?.split(',') ?? [],
    modules: modulesOf(text),
  };
}

function modulesOf(text: string): LuaFile[] {
  const modules = new Map<string, LuaFile>();
  for (const name of [CALLS, ...includesOf(text)]) addModule(name, modules, []);
  return [...modules.values()];
}

function includesOf(text: string): string[] {
  return [...text.matchAll(/\binclude\('(\w+)'\)/g)].map(([, name = '']) => name);
}

function addModule(name: string, into: Map<string, LuaFile>, users: readonly string[]): void {
  if (users.includes(name)) throw new Error(`lua/shared: ${[...users, name].join(' includes ')}`);
  if (into.has(name)) return;
  const path = `shared/${name}.lua`;
  const text = name === 'defaults' ? DEFAULTS : readFileSync(join(DIRECTORY, path), 'utf8');
  for (const each of includesOf(text)) addModule(each, into, [...users, name]);
  into.set(name, { name, path: `lua/${path}`, text });
}

/** Returns a script and all modules that it uses as one text, which Redis can run by EVALSHA. */
export function standalone(script: ScriptSource): string {
  const shebang = script.flags.length > 0 ? `#!lua flags=${script.flags.join(',')}` : '#!lua';
  return `${shebang}\n${preamble([script])}\nreturn (${callback(script)})(KEYS, ARGV)`;
}

/** Returns the Lua text that precedes scripts: each module that they use, once, and `keys_of`. */
export function preamble(scripts: readonly ScriptSource[]): string {
  const modules = new Map(scripts.flatMap((script) => script.modules).map((each) => [each.name, each]));
  return [
    'local modules = {}',
    'local function include(name) return modules[name] end',
    ...[...modules.values()].map(({ name, text }) => `modules.${name} = (function()\n${text}end)()`),
    "local run, map = include('calls').run, include('calls').map",
    keyspaces(keysIn([...scripts, ...modules.values()])),
  ].join('\n');
}

/** Returns the text of a Lua function that runs the script. Its parameters are KEYS and ARGV. */
export function callback(script: ScriptSource): string {
  const { contract } = script;
  return [
    '(function()',
    `local script = (function()\n${script.text}end)()`,
    `local arguments, reply = ${luaArguments(contract)}, ${luaReply(contract)}`,
    'return function(keys, argv) return reply(run(script, keys_of(keys[1]), arguments(argv))) end',
    'end)()',
  ].join('\n');
}

function keysIn(files: readonly LuaFile[]): string[] {
  return [
    ...new Set(
      files.flatMap(({ text }) =>
        [...withoutComments(text).matchAll(/\bkeys\.(\w+)/g)].map(([, name = '']) => name),
      ),
    ),
  ];
}

/**
 * Returns the text of the Lua function `keys_of`. From KEYS[1], which is DECLARED_KEY with the prefix of a
 * partition, it makes the functions that build that partition's keys, such as `keys.batch(bid)`.
 */
function keyspaces(names: readonly string[]): string {
  return [
    'local keyspaces = {}',
    'local function keys_of(declared)',
    'local keys = keyspaces[declared]',
    'if keys then return keys end',
    `local prefix = declared:sub(1, -${DECLARED_KEY.length + 1})`,
    'keys = {}',
    ...names.map(keyFunction),
    'keyspaces[declared] = keys',
    'return keys',
    'end',
  ].join('\n');
}

/** Returns a Lua line that adds one key function to `keys`. Throws if the layout has no such key. */
function keyFunction(name: string): string {
  const key =
    (LAYOUT as Record<string, { pattern: string }>)[name] ??
    (CHANNELS as Record<string, { pattern: string }>)[name];
  if (!key) throw new Error(`a script uses keys.${name}, which src/store/keys.ts does not have`);
  const [start, ...rest] = fixedText(key.pattern);
  const parts = rest.map((_, index) => `p${index}`);
  const glued = rest.map((piece, index) => ` .. p${index}${piece && ` .. '${piece}'`}`);
  const body = `return start${glued.join('')}`;
  return `do local start = prefix .. '${start}' keys.${name} = function(${parts.join(', ')}) ${body} end end`;
}

function withoutComments(lua: string): string {
  return lua.replace(/--\[\[[\s\S]*?\]\]|--.*$/gm, '');
}

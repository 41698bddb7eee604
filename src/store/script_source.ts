import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
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

/**
 * The name of the module that every script needs. It runs the script, and makes the table `call`, which is the script's
 * first parameter.
 */
const CALLS = 'calls';

/**
 * The source of the module `defaults`. The module has no file in `lua/shared/`, because it is made here from
 * subscription_defaults.ts.
 */
const DEFAULTS = [
  'return {',
  `timeout_ms = ${DEFAULT_TIMEOUT_MS}, max_events = ${DEFAULT_MAX_EVENTS}, max_bytes = ${DEFAULT_MAX_BYTES},`,
  `perfect_health = ${PERFECT_HEALTH},`,
  '}\n',
].join('\n');

/**
 * A file of `lua/`. If it is a script, its code returns a function. If it is a module in `lua/shared/`, its code
 * returns a table of functions.
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
  /** The modules that the script uses. A module comes after all modules that it includes. */
  modules: LuaFile[];
}

/** A module in `lua/shared/`, with the names of the modules that it includes. */
interface Module extends LuaFile {
  includes: string[];
}

/**
 * Reads all scripts, sorted by name. Throws if a script has no contract (the types of its arguments and reply), or if a
 * contract has no script.
 */
export function readScripts(): ScriptSource[] {
  const paths = readdirSync(DIRECTORY, { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('.lua'),
  );
  const isShared = (path: string) => dirname(path) === 'shared';
  const pathOf = new Map(
    paths.filter((path) => !isShared(path)).map((path) => [basename(path, '.lua'), path]),
  );
  const unmatched = new Set(pathOf.keys()).symmetricDifference(new Set(Object.keys(contracts)));
  if (unmatched.size > 0) throw new Error(`contracts and lua/ disagree about ${[...unmatched]}`);
  const shared = readModules(paths.filter(isShared));
  return Object.entries(contracts)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, contract]) => readScript(name, String(pathOf.get(name)), contract, shared));
}

function readModules(paths: readonly string[]): Map<string, Module> {
  const texts = paths.map((path) => ({ path, text: readFileSync(join(DIRECTORY, path), 'utf8') }));
  const modules = [...texts, { path: 'shared/defaults.lua', text: DEFAULTS }].map(({ path, text }) => ({
    name: basename(path, '.lua'),
    path: `lua/${path}`,
    text,
    includes: includesOf(text),
  }));
  return new Map(modules.map((module) => [module.name, module]));
}

function readScript(
  name: string,
  path: string,
  contract: Contract,
  shared: ReadonlyMap<string, Module>,
): ScriptSource {
  const whole = readFileSync(join(DIRECTORY, path), 'utf8');
  const [, flags, text] = /^#!lua(?: flags=(\S+))?\n([\s\S]*)$/.exec(whole) ?? [];
  if (text === undefined) throw new Error(`lua/${path} does not begin with #!lua`);
  const modules = new Set<Module>();
  for (const each of [CALLS, ...includesOf(text)]) addModule(each, shared, modules, [path]);
  return { name, path: `lua/${path}`, text, contract, flags: flags?.split(',') ?? [], modules: [...modules] };
}

function includesOf(text: string): string[] {
  return [...text.matchAll(/\binclude\('(\w+)'\)/g)].map(([, name = '']) => name);
}

/**
 * Adds a module and the modules that it includes to `into`; the included modules come first. Throws if the module does
 * not exist, or if it includes itself, directly or through others. `users` is the chain of files that leads to this
 * module: each includes the next, and the last includes the module.
 */
function addModule(
  name: string,
  shared: ReadonlyMap<string, Module>,
  into: Set<Module>,
  users: readonly string[],
): void {
  const chain = [...users, name].join(' includes ');
  if (users.includes(name)) throw new Error(`lua/: ${chain}`);
  const module = shared.get(name);
  if (!module) throw new Error(`lua/: ${chain}, which does not exist`);
  if (into.has(module)) return;
  for (const each of module.includes) addModule(each, shared, into, [...users, name]);
  into.add(module);
}

/** Returns the source of a script and of all modules that it uses as one text, which EVAL and EVALSHA can run. */
export function standalone(script: ScriptSource): string {
  const shebang = script.flags.length > 0 ? `#!lua flags=${script.flags.join(',')}` : '#!lua';
  return `${shebang}\n${preamble([script])}\nreturn (${callback(script)})(KEYS, ARGV)`;
}

/**
 * Returns the Lua source that must precede the source of these scripts: each module that they use, once, and the
 * function `keys_of`.
 */
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

/** Returns the source of a Lua function that runs a script. The function's parameters are KEYS and ARGV. */
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
 * Returns the source of the Lua function `keys_of`. Its argument is KEYS[1], which is the prefix of a partition
 * followed by DECLARED_KEY. Its result is the table `keys`, whose functions make the keys of that partition, such as
 * `keys.batch(bid)`.
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

/**
 * Returns a line of Lua that adds the function of one Redis key to the table `keys`. Throws if the layout has no such
 * key.
 */
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

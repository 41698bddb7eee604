import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import {
  DEFAULT_MAX_BYTES,
  DEFAULT_MAX_EVENTS,
  DEFAULT_TIMEOUT_MS,
  PERFECT_HEALTH,
} from '../config/subscription_defaults.ts';
import type { Contract } from './contract.ts';
import { luaArguments, luaReply } from './contract_lua.ts';
import { DELIVERY_FIELDS } from './contracts/delivering.ts';
import { contracts } from './contracts.ts';
import { BYTES_PER_COPY, MAX_COPIES } from './copies.ts';
import { SHARES } from './job.ts';
import { CHANNELS, DECLARED_KEY, fixedText, LAYOUT } from './keys.ts';

const DIRECTORY = join(import.meta.dirname, '../../lua');

/**
 * The module that every script needs: it runs the script, and makes the table `call`, in which the script finds the
 * keys of its partition and the time.
 */
const CALLS = 'store/calls';

/** Modules without a file in `lua/`. They are made of TypeScript constants, so that scripts use the same values. */
const MADE = {
  'store/defaults': luaTable({
    timeout_ms: DEFAULT_TIMEOUT_MS,
    max_events: DEFAULT_MAX_EVENTS,
    max_bytes: DEFAULT_MAX_BYTES,
    perfect_health: PERFECT_HEALTH,
  }),
  'store/copies': luaTable({ bytes_per_copy: BYTES_PER_COPY, ...MAX_COPIES }),
  'store/delivery_fields': luaList(DELIVERY_FIELDS),
  'store/shares': luaList(SHARES),
};

/**
 * The module `store/commands` has the commands that scripts use. A process first runs the script `try_commands`, and
 * does not start if the ACL forbids one of these commands. The module leaves out some commands that scripts use:
 *
 * - XADD: the bus works without it, because only the audit uses it.
 * - SPUBLISH: the bus needs it only for channels with a hash tag.
 * - MEMORY, OBJECT: `try_commands` tries the one subcommand that the bus uses, because the ACL may permit only that.
 * - TIME: every script begins with it, so without it `try_commands` itself fails.
 */
const UNLISTED = new Set(['XADD', 'SPUBLISH', 'MEMORY', 'OBJECT', 'TIME']);

function luaTable(values: Readonly<Record<string, number>>): string {
  return `return { ${Object.entries(values)
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ')} }\n`;
}

function luaList(names: readonly string[]): string {
  return `return { ${names.map((name) => `'${name}'`).join(', ')} }\n`;
}

/** The first line of a script, with its flags. A module has no such line. */
const SCRIPT_LINE = /^#!lua(?: flags=(\S+))?\n/;

/** A file of `lua/`: a script, or a module that scripts and other modules include. */
interface LuaFile {
  /** The path in `lua/` without the ending, as in `include('delivering/lanes')`. */
  name: string;
  path: string;
  /** The Lua code, without the first line of a script. A script returns a function, and a module returns a table. */
  text: string;
  isScript: boolean;
  flags: string[];
  includes: string[];
}

/** A script. Its name is the name of its file. */
export interface ScriptSource extends Omit<LuaFile, 'isScript' | 'includes'> {
  contract: Contract;
  /** The modules that the script uses. A module comes after all modules that it includes. */
  modules: LuaFile[];
}

/** Reads all scripts, sorted by name. Throws if a script has no contract, or a contract no script. */
export function readScripts(): ScriptSource[] {
  const files = readdirSync(DIRECTORY, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.lua'))
    .map((path) => luaFile(path.slice(0, -'.lua'.length), readFileSync(join(DIRECTORY, path), 'utf8')));
  const made = Object.entries({ ...MADE, 'store/commands': luaList(commandsIn(files)) });
  const all = new Map(
    [...files, ...made.map(([name, text]) => luaFile(name, text))].map((each) => [each.name, each]),
  );
  const scripts = new Map(
    files.filter(({ isScript }) => isScript).map((file) => [basename(file.name), file]),
  );
  const unmatched = new Set(scripts.keys()).symmetricDifference(new Set(Object.keys(contracts)));
  if (unmatched.size > 0)
    throw new Error(`contracts and scripts (files of lua/ that begin with #!lua) differ: ${[...unmatched]}`);
  return Object.entries(contracts)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, contract]) => {
      const file = scripts.get(name) as LuaFile;
      const modules = new Set<LuaFile>();
      for (const each of [CALLS, ...file.includes]) addModule(each, all, modules, [file.name]);
      return { ...file, name, contract, modules: [...modules] };
    });
}

function luaFile(name: string, whole: string): LuaFile {
  const [line = '', flags] = SCRIPT_LINE.exec(whole) ?? [];
  const text = whole.slice(line.length);
  const file = { name, path: `lua/${name}.lua`, text, includes: includesOf(text) };
  return { ...file, isScript: line !== '', flags: flags?.split(',') ?? [] };
}

function includesOf(text: string): string[] {
  const code = withoutComments(text);
  const names = [...code.matchAll(/\binclude\('([\w/]+)'\)/g)].map(([, name = '']) => name);
  if (code.match(/\binclude\b/g)?.length !== (names.length || undefined))
    throw new Error(`lua/: an include is not written as include('folder/module'), beside ${names}`);
  return names;
}

/**
 * Adds a module to `into`, after the modules that it includes. Throws if the module does not exist, or includes itself
 * through other modules. The error shows `users`: the files that led to this module, each of which includes the next.
 */
function addModule(
  name: string,
  all: ReadonlyMap<string, LuaFile>,
  into: Set<LuaFile>,
  users: readonly string[],
): void {
  const chain = () => [...users, name].join(' includes ');
  if (users.includes(name)) throw new Error(`lua/: ${chain()}`);
  const module = all.get(name);
  if (!module) throw new Error(`lua/: ${chain()}, which does not exist`);
  if (into.has(module)) return;
  for (const each of module.includes) addModule(each, all, into, [...users, name]);
  into.add(module);
}

/** Returns one text that EVAL and EVALSHA can run: the source of a script and of all modules that it uses. */
export function standalone(script: ScriptSource): string {
  const shebang = script.flags.length > 0 ? `#!lua flags=${script.flags.join(',')}` : '#!lua';
  return `${shebang}\n${preamble([script])}\nreturn (${callback(script)})(KEYS, ARGV)`;
}

/**
 * Returns the Lua source that precedes these scripts: the modules that they use, once each, and the function `keys_of`.
 */
export function preamble(scripts: readonly ScriptSource[]): string {
  const modules = new Map(scripts.flatMap((script) => script.modules).map((each) => [each.name, each]));
  return [
    'local modules = {}',
    'local function include(name) return modules[name] end',
    ...[...modules.values()].map(({ name, text }) => `modules['${name}'] = (function()\n${text}end)()`),
    `local calls = include('${CALLS}')`,
    'local run, map, part = calls.run, calls.map, calls.part',
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

function keysIn(files: readonly { text: string }[]): string[] {
  return [
    ...new Set(
      files.flatMap(({ text }) =>
        [...withoutComments(text).matchAll(/\bkeys\.(\w+)/g)].map(([, name = '']) => name),
      ),
    ),
  ];
}

/**
 * Returns the source of the Lua function `keys_of`. Its argument is the only key that a script call declares: the
 * prefix of a partition, followed by DECLARED_KEY. It returns the table `keys`, whose functions make the keys of this
 * partition, such as `keys.batch(bid)`.
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
 * Returns a line of Lua that adds a function to the table `keys`: for the name `batch`, the function `keys.batch(bid)`.
 * Throws if src/store/keys.ts has no key of this name.
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

function commandsIn(files: readonly LuaFile[]): string[] {
  const used = files.flatMap(({ text }) => commandsOf(text));
  return [...new Set(used).difference(UNLISTED)];
}

/**
 * Returns the Redis commands that Lua code uses: each word in capitals that is the first argument of a function, such
 * as `redis.call('GET', ...)`. The argument of `find` does not count, because it is a text to look for.
 */
export function commandsOf(lua: string): string[] {
  return [...withoutComments(lua).matchAll(/(?<!:find)\(\s*'([A-Z]{2,})'/g)].map(([, name = '']) => name);
}

function withoutComments(lua: string): string {
  return lua.replace(/--\[\[[\s\S]*?\]\]|--.*$/gm, '');
}

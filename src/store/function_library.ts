import { createHash } from 'node:crypto';
import type { ScriptSource } from './script_source.ts';

/** Scripts as functions of a library of Redis. */
export interface FunctionLibrary {
  name: string;
  lua: string;
  /** By script: the function to call. */
  functions: ReadonlyMap<string, string>;
}

/** The names of our libraries, and of their functions, begin so. */
export const LIBRARIES = 'routemaster_';

/**
 * Makes a library of scripts: what they define is made when it is loaded, and not at each call. All else of a script runs at
 * each call, in its order, so that nothing of one call is left for the next. The name has a digest of the code in it, as two
 * releases may use one Redis.
 */
export function functionLibrary(scripts: readonly ScriptSource[]): FunctionLibrary {
  const parts = (prefix: string) =>
    scripts.map((script) => asFunction(script, prefix + script.name)).join('\n');
  const digest = createHash('sha256').update(parts('')).digest('hex').slice(0, 16);
  const name = `${LIBRARIES}${digest}`;
  const functions = new Map(scripts.map((script) => [script.name, `${name}_${script.name}`]));
  return { name, lua: `#!lua name=${name}\n${parts(`${name}_`)}`, functions };
}

/** The script that a function of a library is made of. */
export function scriptOfFunction(name: string): string {
  return name.slice(LIBRARIES.length).replace(/^[^_]*_/, '');
}

/** A statement begins on a line that is not indented, and ends none. */
const BEGINS = /\n(?=(?!(?:end|else|elseif)\b|[)}\]])\S)/;
const DEFINES = /^local (?:function (\w+)|key = )/;
const DECLARES = /^local ([\w, ]+?)( =|$)/m;

/** Lua lets a function use 60 variables of those around it. */
const STATEMENTS_A_STEP = 12;

function asFunction({ name, lua, flags }: ScriptSource, functionName: string): string {
  const [, ...items] = lua.split(BEGINS);
  const definitions = items.filter((item) => DEFINES.test(item));
  const statements = items.filter((item) => !DEFINES.test(item));
  const variables = statements.flatMap((item) => DECLARES.exec(item)?.[1]?.split(', ') ?? []);
  const names = [...variables, ...definitions.map((item) => DEFINES.exec(item)?.[1])];
  if (new Set(names).size < names.length) throw new Error(`lua/${name}.lua declares a name twice`);
  if (statements.slice(0, -1).some((item) => /\breturn\b/.test(item)))
    throw new Error(`lua/${name}.lua returns before its end`);
  const steps: string[][] = [];
  for (let at = 0; at < statements.length; at += STATEMENTS_A_STEP)
    steps.push(statements.slice(at, at + STATEMENTS_A_STEP).map(asAssignment));
  const calls = steps.map((_, index) => `step_${index}()`);
  return [
    'do',
    `local KEYS, ARGV, ${variables.join(', ')}`,
    ...definitions,
    ...steps.map((step, index) => `local function step_${index}()\n${step.join('\n')}\nend`),
    `redis.register_function{ function_name = '${functionName}', flags = { ${flags.map((flag) => `'${flag}'`)} },`,
    'callback = function(keys, argv)',
    'KEYS, ARGV = keys, argv',
    ...calls.slice(0, -1),
    `return ${calls.at(-1)}`,
    'end }',
    'end',
  ].join('\n');
}

/** `local a, b` is nil each time that it is run. */
function asAssignment(statement: string): string {
  const [, variables, initial] = DECLARES.exec(statement) ?? [];
  if (variables === undefined) return statement;
  return initial === ' =' ? statement.slice('local '.length) : `${variables} = nil`;
}

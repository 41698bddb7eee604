import { hash } from 'node:crypto';
import { callback, preamble, type ScriptSource } from './script_source.ts';

/** A library of Redis functions, one for each script. */
export interface FunctionLibrary {
  name: string;
  lua: string;
}

/** The prefix of the names of this bus's libraries, and of the names of their functions. */
export const LIBRARIES = 'routemaster_';

/**
 * Makes a library of these scripts. Its name contains a digest of its code, so that two releases can use the same
 * Redis.
 */
export function functionLibrary(scripts: readonly ScriptSource[]): FunctionLibrary {
  const before = preamble(scripts);
  const callbacks = scripts.map((script) => ({ ...script, callback: callback(script) }));
  const code = [before, ...callbacks.map((each) => `${each.flags} ${each.callback}`)].join('\n');
  const name = LIBRARIES + hash('sha256', code).slice(0, 16);
  const functions = callbacks.map(
    (script) =>
      `redis.register_function{ function_name = '${functionName(name, script.name)}', ` +
      `flags = { ${script.flags.map((flag) => `'${flag}'`)} }, callback = ${script.callback} }`,
  );
  return { name, lua: [`#!lua name=${name}`, before, ...functions].join('\n') };
}

export function functionName(library: string, script: string): string {
  return `${library}_${script}`;
}

/** Returns the name of the script from which the Redis function `name` was made. */
export function scriptOfFunction(name: string): string {
  return name.slice(LIBRARIES.length).replace(/^[^_]*_/, '');
}

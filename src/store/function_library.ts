import { createHash } from 'node:crypto';
import { callback, preamble, type ScriptSource } from './script_source.ts';

/** Scripts as functions of a library of Redis. */
export interface FunctionLibrary {
  name: string;
  lua: string;
}

/** The names of our libraries, and of their functions, begin so. */
export const LIBRARIES = 'routemaster_';

/**
 * Makes a library with a function for each script. The name has a digest of the code in it, as two releases
 * may use one Redis.
 */
export function functionLibrary(scripts: readonly ScriptSource[]): FunctionLibrary {
  const before = preamble(scripts);
  const callbacks = scripts.map((script) => ({ ...script, callback: callback(script) }));
  const code = [before, ...callbacks.map((each) => `${each.flags} ${each.callback}`)].join('\n');
  const name = LIBRARIES + createHash('sha256').update(code).digest('hex').slice(0, 16);
  const functions = callbacks.map(
    (script) =>
      `redis.register_function{ function_name = '${functionName(name, script.name)}', ` +
      `flags = { ${script.flags.map((flag) => `'${flag}'`)} }, callback = ${script.callback} }`,
  );
  return { name, lua: [`#!lua name=${name}`, before, ...functions].join('\n') };
}

/** The function that a script is in a library. */
export function functionName(library: string, script: string): string {
  return `${library}_${script}`;
}

/** The script that a function of a library is made of. */
export function scriptOfFunction(name: string): string {
  return name.slice(LIBRARIES.length).replace(/^[^_]*_/, '');
}

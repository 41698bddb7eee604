import type { z } from 'zod';

/** One setting of the bus, which comes from an environment variable. */
export interface Setting<T> {
  variable: string;
  type: z.ZodType<T>;
  /** The default, written as the value of the environment variable. Undefined if there is no default. */
  unset: string | undefined;
  help: string;
}

/** Makes a setting: `setting(variable, type, unset).help(help)`. Leave out `unset` if there is no default. */
export function setting<T>(variable: string, type: z.ZodType<T>, unset?: string) {
  return { help: (help: string): Setting<T> => ({ variable, type, unset, help }) };
}

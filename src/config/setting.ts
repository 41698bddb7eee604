import type { z } from 'zod';

/** One setting of the bus, which comes from an environment variable. */
interface Setting<T> {
  variable: string;
  type: z.ZodType<T>;
  /** The default, written as the value of the environment variable. Undefined if there is no default. */
  unset: string | undefined;
  /** True if the value may hold a key, a token or a password. Then no error and no log shows it. */
  isSecret: boolean;
  help: string;
}

/** Makes a setting: `setting(variable, type, unset).help(help)`. Leave out `unset` if there is no default. */
export function setting<T>(variable: string, type: z.ZodType<T>, unset?: string) {
  return { help: (help: string): Setting<T> => ({ variable, type, unset, isSecret: false, help }) };
}

/**
 * Makes a setting whose value may hold a key, a token or a password. For example, a URL may hold a password. Use this
 * function if in doubt.
 */
export function secretSetting<T>(variable: string, type: z.ZodType<T>, unset?: string) {
  return { help: (help: string): Setting<T> => ({ variable, type, unset, isSecret: true, help }) };
}

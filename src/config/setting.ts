import type { z } from 'zod';

interface Setting<T> {
  variable: string;
  type: z.ZodType<T>;
  /** The default as an operator would write it in the variable, such as `'500'`. Undefined if there is no default. */
  unset: string | undefined;
  /** True if the value may hold a key, a token or a password. If so, no error message and no log shows it. */
  isSecret: boolean;
  help: string;
}

/** Makes a setting: `setting(variable, type, unset).help(help)`. Without `unset` there is no default. */
export function setting<T>(variable: string, type: z.ZodType<T>, unset?: string) {
  return { help: (help: string): Setting<T> => ({ variable, type, unset, isSecret: false, help }) };
}

/**
 * Makes a setting whose value may hold a key, a token or a password, for example as a part of a URL. Use this one if in
 * doubt.
 */
export function secretSetting<T>(variable: string, type: z.ZodType<T>, unset?: string) {
  return { help: (help: string): Setting<T> => ({ variable, type, unset, isSecret: true, help }) };
}

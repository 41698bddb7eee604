import type { z } from 'zod';
import { BusError } from '../errors.ts';
import type { Input, Wording } from '../routing/route.ts';

/** Returns the value as the schema converts it; undefined if there is no schema. Throws BusError for a wrong value. */
export function checked(input: Input<unknown> | undefined, value: unknown): unknown {
  if (!input) return undefined;
  const read = input.schema.safeParse(value);
  if (read.success) return read.data;
  const { issues } = read.error;
  // An unknown field is reported first. If a field is misspelt, the field with the right name is missing too, but to
  // report the missing field would help less.
  throw problemOf(issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0], input.wording);
}

function problemOf(issue: z.core.$ZodIssue | undefined, wording: Wording): BusError {
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  const field = unknown ?? issue?.path.join('.') ?? '';
  const code = typeof wording.code === 'string' ? wording.code : wording.code(field);
  if (!wording.field || field === '') return new BusError(code, wording.whole);
  const detail =
    unknown === undefined ? wording.field(field, issue?.message ?? '') : wording.unknown?.(unknown);
  return new BusError(code, detail ?? wording.whole, { members: { field } });
}

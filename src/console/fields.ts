import { BusError } from '../errors.ts';

/** Returns the words of a field, between which are spaces, commas or ends of lines. */
export function linesOf(value: string | string[] | undefined): string[] {
  return String(value ?? '')
    .split(/[\s,]+/)
    .filter(Boolean);
}

/** Returns the JSON of a field. Throws bad_body. */
export function jsonOf(value: string | string[] | undefined): unknown {
  try {
    return JSON.parse(String(value ?? ''));
  } catch (error) {
    throw new BusError('bad_body', `this is no JSON: ${(error as Error).message}; go back to mend it`);
  }
}

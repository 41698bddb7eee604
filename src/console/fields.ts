import { BusError } from '../errors.ts';

/** Returns the words in a form field. They are separated by spaces, commas or line ends. */
export function linesOf(value: string | string[] | undefined): string[] {
  return String(value ?? '')
    .split(/[\s,]+/)
    .filter(Boolean);
}

/** Returns the parsed JSON of a form field. Throws bad_body if it is not JSON. */
export function jsonOf(value: string | string[] | undefined): unknown {
  try {
    return JSON.parse(String(value ?? ''));
  } catch (error) {
    throw new BusError('bad_body', `this is no JSON: ${(error as Error).message}; go back to mend it`);
  }
}

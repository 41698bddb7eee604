import { BusError } from '../errors.ts';
import { parseJson } from '../json.ts';

/** Returns the words in a form field. They are separated by spaces, commas or line ends. */
export function linesOf(value: string | string[] | undefined): string[] {
  return String(value ?? '')
    .split(/[\s,]+/)
    .filter(Boolean);
}

/** Returns the parsed JSON of a form field. Throws bad_body if it is not JSON. */
export function jsonOf(value: string | string[] | undefined): unknown {
  try {
    return parseJson(String(value ?? ''), 'this');
  } catch (error) {
    throw new BusError('bad_body', `${(error as Error).message}; go back to mend it`);
  }
}

import { hash } from 'node:crypto';
import type { BusError } from '../errors.ts';
import { escapeOf, isDeep, parseJson } from '../json.ts';

export type AnyFields = Record<string, string | string[] | undefined>;

/** A refused form. `path` is the path to which it was sent, and `from` the path and query of the page with the form. */
export interface Refusal {
  path: string;
  from: string;
  fields: AnyFields;
  error: BusError;
}

/** Returns the words in a form field, which are separated by spaces, commas or line ends. */
export function wordsIn(value: string | string[] | undefined): string[] {
  return String(value ?? '')
    .split(/[\s,]+/)
    .filter(Boolean);
}

/** Returns the parsed JSON of the form field `field`. Throws bad_body if it is not JSON. */
export function jsonOf(fields: AnyFields, field: string): unknown {
  return parseJson(String(fields[field] ?? ''), 'this', { field });
}

/**
 * Maximum length and nesting of JSON that pages indent. Indentation makes JSON of 60 levels 65 times as long, so a few
 * such events would make a page of 65 MB, which takes four seconds.
 */
const [MAX_INDENTED, MAX_INDENTED_LEVELS] = [16_384, 10];

/** Returns a value as JSON for people: indented, unless it is very long or deep. */
export function readableJson(value: unknown): string {
  const text = JSON.stringify(value);
  const isPlain = text.length > MAX_INDENTED || isDeep(text, MAX_INDENTED_LEVELS);
  return isPlain ? text : JSON.stringify(value, null, 2);
}

/** Characters that could hide text from a reader. JSON.stringify does not escape them, and `html` replaces them. */
const INVISIBLE = /\p{Bidi_Control}|[\x7f-\x9f]/gu;

/**
 * Returns a value as JSON to edit in a form, with invisible characters as escapes such as `\u202e`. Otherwise `html`
 * would replace these characters, and sending the form would store the replaced text.
 */
export function editableJson(value: unknown): string {
  return readableJson(value).replace(INVISIBLE, escapeOf);
}

/**
 * Returns a digest of the values that a form shows. The form sends it back in the field `was`, and is refused if
 * somebody else has changed the values meanwhile.
 */
export function digestOf(values: unknown): string {
  return hash('sha256', editableJson(values), 'base64url');
}

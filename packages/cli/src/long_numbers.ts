import { randomUUID } from 'node:crypto';

/**
 * `parseJson` replaces a long number by a string that begins with this text. The text is random, so that no string of
 * an event begins with it by chance.
 */
const MARK = randomUUID();
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, 'g');

const LONG_NUMBER = /\d{16}/;
/**
 * Matches what `parseJson` must see: a quote (begin or end of a string), an escape, or a whole number of 16 digits or
 * more. JavaScript does not change shorter whole numbers.
 */
const TOKEN = /"|\\.|(?<![\d.])-?\d{16,}(?![\d.eE])/g;

/**
 * Parses JSON of the bus. JavaScript would round whole numbers above 2^53, so each becomes a string, which `jsonText`
 * turns back into the number. (JSON.rawJSON could replace these strings, but Node 20 lacks it.)
 */
export function parseJson(text: string): unknown {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  let isString = false;
  const marked = text.replace(TOKEN, (token) => {
    if (token === '"') isString = !isString;
    const isLong = !isString && /\d$/.test(token) && !Number.isSafeInteger(Number(token));
    return isLong ? `"${MARK}${token}"` : token;
  });
  return JSON.parse(marked);
}

/** Returns a value as JSON. Long numbers get all the digits back that they had when `parseJson` read them. */
export function jsonText(value: unknown): string {
  return withLongNumbers(JSON.stringify(value));
}

/** Returns JSON, made of what `parseJson` returned, with the long numbers that `parseJson` read. */
export function withLongNumbers(json: string): string {
  return json.replace(MARKED, '$1');
}

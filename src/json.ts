import { BusError } from './errors.ts';

declare global {
  // `JSON.rawJSON` is new in Node 24. TypeScript's library does not declare it yet.
  interface JSON {
    /** Returns an object that JSON.stringify writes as this text. The text must be a JSON number. */
    rawJSON(text: string): object;
    isRawJSON(value: unknown): boolean;
  }
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Maximum nesting of arrays and objects: 64 levels of an event's data, the event itself, and the array of events. */
export const MAX_LEVELS = 66;
/**
 * A text up to this length takes a few milliseconds to parse, however deeply it is nested. The nesting of a longer text
 * is checked first: parsing five million `[` would take 650 ms.
 */
export const SHORT_TEXT = 65_536;
/**
 * Maximum characters of JSON for one byte of a text. Some encoders, such as Go's, write even `<` as an escape:
 * `\u003c`.
 */
export const MAX_CHARACTERS_PER_BYTE = 6;
/** Maximum number of values in JSON with a long number. A reviver parses such JSON: a microsecond for each value. */
const MAX_VALUES = 16_000;
/**
 * Maximum digits of a whole number. Integers of 64 bits have up to 20, and millions of digits would take seconds to
 * read.
 */
const MAX_DIGITS = 20;
const CHARACTER = /[^ \t\r\n]/g;

/**
 * Thrown for text that the bus refuses even if it is valid JSON, because it could not be passed on unchanged (`1e999`,
 * for example), or would take too long to parse.
 */
class Unfaithful extends Error {}

/**
 * Matches text that may contain a number which a double cannot hold: 16 digits in a row, or an exponent of three digits
 * or more. The lookbehind makes the search three times as fast.
 */
const LONG_NUMBER = /(?<!\d)\d{16}|\d[eE]\+?\d{3}/;
const [MIN, MAX] = [-(2n ** 63n), 2n ** 64n - 1n];

/** Matches text that may contain half of a surrogate pair. */
const SURROGATE = /\\u[dD][89a-fA-F]/;
/**
 * Matches a surrogate pair, a single surrogate (captured), or any other escape. Other escapes matter because `\\ud800`
 * is an escaped backslash and no surrogate.
 */
const ESCAPES = /\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\./g;

/**
 * Parses JSON in a time proportional to its length. Whole numbers that a double cannot hold become JSON.rawJSON, so
 * that 64-bit ids keep their digits. Throws bad_body if the text is not acceptable. The error's detail begins with
 * `where`, the wrong part of the request, and its problem document has `members`.
 */
export function parseJson(
  text: string,
  where = 'the body',
  members: Record<string, string | number> = {},
): unknown {
  try {
    if (text.length > SHORT_TEXT && isDeep(text)) throw new Unfaithful('is nested too deeply');
    if (SURROGATE.test(text)) refuseLoneSurrogates(text);
    return LONG_NUMBER.test(text) ? parseLongNumbers(text) : JSON.parse(text);
  } catch (cause) {
    throw new BusError('bad_body', `${where} ${fault(cause, text)}`, { cause, members });
  }
}

function fault(cause: unknown, text: string): string {
  if (text.trim() === '') return 'is empty; send JSON';
  if (cause instanceof Unfaithful) return cause.message;
  if (cause instanceof SyntaxError) return `is not JSON: ${cause.message}`;
  return 'is nested too deeply'; // A reviver ran out of stack.
}

/** True if JSON is nested too deeply. The result is meaningless for text that is not JSON. */
export function isDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;
    else if ((code === OPEN_ARRAY || code === OPEN_OBJECT) && ++depth > MAX_LEVELS) return true;
  }
  return false;
}

/**
 * True if JSON has more than `max` marks: brackets, commas and quotes outside of strings. Each is one byte of the
 * value, so a value with more marks than permitted bytes is too large. Parsing many marks takes long, so this is
 * checked before.
 */
export function hasMoreMarks(text: string, max: number): boolean {
  let marks = 0;
  for (let at = 0; at < text.length && marks <= max; at++) {
    const code = text.charCodeAt(at);
    if (code === COMMA) marks++;
    else if (code === OPEN_ARRAY || code === OPEN_OBJECT) marks += 2;
    else if (code === QUOTE) {
      marks += 2;
      at = endOfString(text, at);
    }
  }
  return marks > max;
}

/**
 * Returns the position of the closing quote of the string that begins at `start`, or the length of the text if there is
 * none before `limit`.
 */
export function endOfString(text: string, start: number, limit = text.length): number {
  let end = start;
  do {
    end = text.indexOf('"', end + 1);
    if (end < 0 || end >= limit) return text.length;
  } while (isEscaped(text, end));
  return end;
}

/**
 * Returns the position of the first character from `from` on that is not white space, or the length of the text if
 * there is none.
 */
export function firstCharacter(text: string, from = 0): number {
  CHARACTER.lastIndex = from;
  return CHARACTER.exec(text)?.index ?? text.length;
}

/**
 * Returns the text without JSON's white space at its ends. `trim` would also remove characters that JSON does not allow
 * there.
 */
export function trimmed(text: string): string {
  const start = firstCharacter(text);
  let end = text.length;
  while (end > start && ' \t\r\n'.includes(text.charAt(end - 1))) end--;
  return text.slice(start, end);
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes++;
  return slashes % 2 === 1;
}

function parseLongNumbers(text: string): unknown {
  let commas = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === COMMA && ++commas >= MAX_VALUES)
      throw new Unfaithful('has too many values beside a number of 16 digits or more');
  }
  return JSON.parse(text, withAllDigits);
}

/** Throws if a text has half of a surrogate pair, which UTF-8 cannot store. */
function refuseLoneSurrogates(text: string): void {
  for (const [, lone] of text.matchAll(ESCAPES)) {
    if (lone !== undefined)
      throw new Unfaithful(`has ${lone}, half of a character: send both halves, or the character itself`);
  }
}

/** Parses JSON that the bus has written. Whole numbers keep their digits, however large they are. */
export function parseOwnJson(text: string): unknown {
  return LONG_NUMBER.test(text) ? JSON.parse(text, keepingDigits) : JSON.parse(text);
}

// The third argument of a reviver is new. TypeScript's library does not declare it yet.
function keepingDigits(_key: string, value: unknown, { source }: { source?: string } = {}): unknown {
  const isLong = typeof value === 'number' && source !== undefined && !Number.isSafeInteger(value);
  return isLong && /^-?\d+$/.test(source) ? JSON.rawJSON(source) : value;
}

function withAllDigits(_key: string, value: unknown, { source }: { source?: string } = {}): unknown {
  if (typeof value !== 'number' || source === undefined || Number.isSafeInteger(value)) return value;
  const isWhole = /^-?\d+$/.test(source);
  const whole = isWhole && source.length <= MAX_DIGITS + 1 ? BigInt(source) : undefined;
  if (!isWhole && Number.isFinite(value)) return value;
  if (whole !== undefined && whole >= MIN && whole <= MAX) return JSON.rawJSON(source);
  throw new Unfaithful(`has the number ${source.slice(0, 40)}, too large to be kept: send it as a string`);
}

import { randomUUID } from 'node:crypto';
import { BusError } from './errors.ts';

declare global {
  // `JSON.rawJSON` is new in Node 24. TypeScript's library does not declare it yet.
  interface JSON {
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
 * Maximum characters that an encoder writes for one byte of text. Go's encoder, for example, writes `<` as `\u003c`.
 * The maximum length of a request is calculated with this number.
 */
export const MAX_CHARACTERS_PER_BYTE = 6;
/**
 * Maximum digits of a whole number: 64-bit numbers have up to 20. A longer number is refused without converting it to a
 * BigInt, which would take seconds for millions of digits.
 */
const MAX_DIGITS = 20;
const CHARACTER = /[^ \t\r\n]/g;

/**
 * Thrown for text that the bus refuses even if it is valid JSON: it could not be passed on unchanged (`1e999`, for
 * example), or would take too long to parse.
 */
class Unfaithful extends Error {}

/**
 * LONG_DIGITS and LONG_EXPONENT match text that may contain a number which a double cannot hold: 16 digits in a row, or
 * an exponent of at least three digits. They are written for speed: one expression for both would take twice as long,
 * and `\d{16}` ten times as long.
 */
const LONG_DIGITS = /\d\d\d\d\d\d\d\d\d\d\d\d\d\d\d\d/;
const LONG_EXPONENT = /\d[eE]\+?\d{3}/;
/**
 * Finds numbers that a double may not hold: those that begin with at least 16 digits, or have at least three digits in
 * the exponent. Matches the whole number. Also matches a quote, so that the caller can skip strings.
 */
const QUOTE_OR_LONG = /"|(?<![\d.])-?\d(?:\d{15}[\d.]*(?:[eE][-+]?\d*)?|[\d.]*[eE][-+]?\d{3}\d*)/g;
/** Prefix of strings that stand for long numbers while JSON is parsed. It is random, so no caller can send it. */
const MARK = randomUUID();
const [MIN, MAX] = [-(2n ** 63n), 2n ** 64n - 1n];

/** Matches text that may contain half of a surrogate pair. */
const SURROGATE = /\\u[dD][89a-fA-F]/;
/**
 * Matches a surrogate pair, a single surrogate (captured), or any other escape. The search skips other escapes by
 * matching them. For example, `\\ud800` is an escaped backslash and the text `ud800`, not a surrogate.
 */
const ESCAPES = /\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\./g;

/**
 * Parses JSON in a time proportional to its length. Whole numbers that a double cannot hold become JSON.rawJSON, so
 * that 64-bit ids keep their digits. Throws bad_body if the text is not JSON. Also throws bad_body for JSON that is
 * nested too deeply, has half of a surrogate pair, or has a number that neither 64 bits nor a double can hold. The
 * message begins with `where`, which says where in the request the text is. `members` are added to the error answer.
 */
export function parseJson(
  text: string,
  where = 'the body',
  members: Record<string, string | number> = {},
): unknown {
  try {
    if (text.length > SHORT_TEXT && isDeep(text)) throw new Unfaithful('is nested too deeply');
    if (SURROGATE.test(text)) refuseLoneSurrogates(text);
    return mayHaveLongNumber(text) ? parseLongNumbers(text, isLongOrThrow) : JSON.parse(text);
  } catch (cause) {
    throw new BusError('bad_body', `${where} ${fault(cause, text)}`, { cause, members });
  }
}

function mayHaveLongNumber(text: string): boolean {
  return LONG_DIGITS.test(text) || LONG_EXPONENT.test(text);
}

function fault(cause: unknown, text: string): string {
  if (text.trim() === '') return 'is empty; send JSON';
  if (cause instanceof Unfaithful) return cause.message;
  if (cause instanceof SyntaxError) return `is not JSON: ${syntaxFault(cause.message, text)}`;
  return 'is nested too deeply'; // `withRawNumbers` ran out of stack.
}

/**
 * Returns V8's message about text that is not JSON, with a hint if the reason is a comma before a closing bracket. Cuts
 * off `(line 1 column 6)` if the text has only one line. The text may be a later line of the body, so `line 1` would
 * mislead, and the message already has the position in the text.
 */
function syntaxFault(message: string, text: string): string {
  const [, position] = /^Expected double-quoted property name in JSON at position (\d+)/.exec(message) ?? [];
  const isCommaTooMany =
    (position !== undefined && text[Number(position)] === '}') ||
    /^Unexpected token '\]', .*,\s*\]/s.test(message);
  const place = text.includes('\n') ? message : message.replace(/ \(line 1 column \d+\)$/, '');
  return isCommaTooMany ? `${place}; is there a comma too many?` : place;
}

/** True if a text has more than `maxLevels` levels of arrays and objects. The text must be valid JSON. */
export function isDeep(text: string, maxLevels = MAX_LEVELS): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;
    else if ((code === OPEN_ARRAY || code === OPEN_OBJECT) && ++depth > maxLevels) return true;
  }
  return false;
}

/**
 * True if JSON has more than `max` delimiters: brackets, commas, and the quotes at both ends of strings. Call this
 * before parsing, because parsing many delimiters takes long.
 */
export function hasMoreDelimiters(text: string, max: number): boolean {
  let delimiters = 0;
  for (let at = 0; at < text.length && delimiters <= max; at++) {
    const code = text.charCodeAt(at);
    if (code === COMMA) delimiters++;
    else if (code === OPEN_ARRAY || code === OPEN_OBJECT) delimiters += 2;
    else if (code === QUOTE) {
      delimiters += 2;
      at = endOfString(text, at);
    }
  }
  return delimiters > max;
}

/**
 * Returns the position of the quote that closes the string which begins at `start`. Returns the text's length if there
 * is no such quote before `limit`.
 */
export function endOfString(text: string, start: number, limit = text.length): number {
  let end = start;
  do {
    end = text.indexOf('"', end + 1);
    if (end < 0 || end >= limit) return text.length;
  } while (isEscaped(text, end));
  return end;
}

/** Returns the position of the first character that is not white space, or the length of the text. */
export function firstCharacter(text: string, from = 0): number {
  CHARACTER.lastIndex = from;
  return CHARACTER.exec(text)?.index ?? text.length;
}

/**
 * Removes JSON's white space at both ends. `trim` would also remove characters that are white space only in JavaScript.
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

/**
 * Parses JSON that may have long numbers (see QUOTE_OR_LONG). A long number for which `keepsDigits` returns true
 * becomes JSON.rawJSON and keeps its digits; any other becomes a double. JSON.parse is called without a reviver, which
 * would take half a second for a megabyte of one-digit numbers.
 */
function parseLongNumbers(text: string, keepsDigits: (number: string) => boolean): unknown {
  const parsed: unknown = JSON.parse(text); // throws if not JSON: a mark would hide that a number is malformed
  let [marked, from] = ['', 0];
  QUOTE_OR_LONG.lastIndex = 0;
  for (let found = QUOTE_OR_LONG.exec(text); found; found = QUOTE_OR_LONG.exec(text)) {
    const [token] = found;
    if (token === '"') QUOTE_OR_LONG.lastIndex = endOfString(text, found.index) + 1;
    else if (keepsDigits(token)) {
      marked += `${text.slice(from, found.index)}"${MARK}${token}"`;
      from = QUOTE_OR_LONG.lastIndex;
    }
  }
  return from === 0 ? parsed : withRawNumbers(JSON.parse(marked + text.slice(from)));
}

function withRawNumbers(value: unknown): unknown {
  if (typeof value === 'string')
    return value.startsWith(MARK) ? JSON.rawJSON(value.slice(MARK.length)) : value;
  if (typeof value !== 'object' || value === null) return value;
  const members = value as Record<string, unknown>;
  if (Array.isArray(value)) for (let i = 0; i < value.length; i++) value[i] = withRawNumbers(value[i]);
  else for (const name of Object.keys(members)) members[name] = withRawNumbers(members[name]);
  return value;
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
  return mayHaveLongNumber(text) ? parseLongNumbers(text, isLongWhole) : JSON.parse(text);
}

function isLongWhole(number: string): boolean {
  return /^-?\d+$/.test(number) && !Number.isSafeInteger(Number(number));
}

/** True for a whole number that 64 bits can hold and a double cannot. Throws if neither can hold the number. */
function isLongOrThrow(number: string): boolean {
  const isLong = isLongWhole(number);
  const whole = isLong && number.length <= MAX_DIGITS + 1 ? BigInt(number) : undefined;
  if (isLong ? whole !== undefined && whole >= MIN && whole <= MAX : Number.isFinite(Number(number)))
    return isLong;
  throw new Unfaithful(`has the number ${number.slice(0, 40)}, too large to be kept: send it as a string`);
}

/** Returns the escape of a character in JSON, such as \u202e. */
export function escapeOf(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

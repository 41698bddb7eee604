import { BusError } from './errors.ts';

declare global {
  // New in Node 24; TypeScript's library does not know it yet.
  interface JSON {
    /** Returns an object that JSON.stringify writes as this text, which must be a JSON number. */
    rawJSON(text: string): object;
    isRawJSON(value: unknown): boolean;
  }
}

/** Thrown for JSON that would be delivered differently from how it was sent. */
class Unfaithful extends Error {}

/**
 * Matches text that may contain a number which a double cannot hold. It is tried once per number, at the
 * first digit. Trying every digit or `e` would take three times as long.
 */
const LONG_NUMBER = /(?<!\d)\d{16}|\d[eE]\+?\d{3}/;
const [MIN, MAX] = [-(2n ** 63n), 2n ** 64n - 1n];

/** Matches text that may contain half of a surrogate pair. */
const SURROGATE = /\\u[dD][89a-fA-F]/;
/** Matches a surrogate pair, a single surrogate (captured), or any other escape. */
const ESCAPES = /\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\./g;

/**
 * Parses JSON. Whole numbers that a double cannot hold become JSON.rawJSON, so that 64-bit ids keep their
 * digits. Throws bad_body with a detail that starts with `where`, and with these members.
 */
export function parseJson(
  text: string,
  where = 'the body',
  members: Record<string, string | number> = {},
): unknown {
  try {
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

/** Maximum values in text that needs a reviver, which takes half a microsecond per value. */
const MAX_VALUES = 500_000;

function parseLongNumbers(text: string): unknown {
  let commas = 0;
  for (let at = text.indexOf(','); at >= 0 && commas <= MAX_VALUES; at = text.indexOf(',', at + 1)) commas++;
  if (commas > MAX_VALUES) throw new Unfaithful('has too many values beside a number of 16 digits or more');
  return JSON.parse(text, withAllDigits);
}

/** Throws for single surrogates, because UTF-8 cannot store them. */
function refuseLoneSurrogates(text: string): void {
  for (const [, lone] of text.matchAll(ESCAPES)) {
    if (lone !== undefined)
      throw new Unfaithful(`has ${lone}, half of a character: send both halves, or the character itself`);
  }
}

// The third argument is new; TypeScript's library does not know it yet.
function withAllDigits(_key: string, value: unknown, { source }: { source?: string } = {}): unknown {
  if (typeof value !== 'number' || source === undefined || Number.isSafeInteger(value)) return value;
  const whole = /^-?\d+$/.test(source) ? BigInt(source) : undefined;
  if (whole === undefined && Number.isFinite(value)) return value;
  if (whole !== undefined && whole >= MIN && whole <= MAX) return JSON.rawJSON(source);
  throw new Unfaithful(`has the number ${source.slice(0, 40)}, too large to be kept: send it as a string`);
}

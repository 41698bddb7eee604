import { BusError } from './errors.ts';

declare global {
  // New in Node 24; TypeScript's library does not know it yet.
  interface JSON {
    /** Stands for this JSON text of a number: JSON.stringify writes it as it is. */
    rawJSON(text: string): object;
    isRawJSON(value: unknown): boolean;
  }
}

/** JSON that would come out as something else than was sent. */
class Unfaithful extends Error {}

/**
 * Finds text that may have a number which a double cannot hold. It looks at the first digit of a number only: a look at each
 * digit, or at each `e`, takes three times as long, which was a tenth of the CPU of a bulk publish.
 */
const LONG_NUMBER = /(?<!\d)\d{16}|\d[eE]\+?\d{3}/;
const [MIN, MAX] = [-(2n ** 63n), 2n ** 64n - 1n];

/** Finds text that may have one half of a surrogate pair. */
const SURROGATE = /\\u[dD][89a-fA-F]/;
/** Matches a pair of surrogates, a single one (captured), or any other escape, such as that of a backslash. */
const ESCAPES = /\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\./g;

/**
 * Parses JSON. Whole numbers that a double cannot hold become JSON.rawJSON, so that ids of 64 bits keep their digits. Throws bad_body;
 * its detail begins with `where`, and `members` go into the problem.
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

/** A value takes half a microsecond with a reviver: this bounds how long one request keeps all others waiting. */
const MAX_VALUES = 500_000;

function parseLongNumbers(text: string): unknown {
  let commas = 0;
  for (let at = text.indexOf(','); at >= 0 && commas <= MAX_VALUES; at = text.indexOf(',', at + 1)) commas++;
  if (commas > MAX_VALUES) throw new Unfaithful('has too many values beside a number of 16 digits or more');
  return JSON.parse(text, withAllDigits);
}

/** UTF-8 has no half characters: they would be stored as other ones. */
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

import { endOfString, firstCharacter, MAX_LEVELS } from '../json.ts';

const [QUOTE, COMMA] = [0x22, 0x2c];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * A long array is parsed in pieces. A piece gets whole elements until it has at least CHARACTERS characters or COMMAS
 * commas. Parsing the piece then takes about 1 ms.
 */
const CHARACTERS = 16_384;
const COMMAS = 2500;

/** The maximum size of an element of an array. */
export interface MaxSize {
  /** In characters. */
  length: number;
  /** Number of brackets and commas, without those inside of strings, and of the quotes around strings. */
  delimiters: number;
}

/** Consecutive elements of an array as JSON text, without the brackets. */
interface Piece {
  text: string;
  /** True if `text` is only the beginning of an element that exceeds the maximum size. */
  isTooLong: boolean;
  /**
   * True if the element is too long to be parsed, and its beginning is nested too deeply. Always false for other
   * elements, because the parser checks how deeply they are nested.
   */
  isTooDeep: boolean;
  isLast: boolean;
}

type End = Pick<Piece, 'isTooLong' | 'isTooDeep'> & { end: number };

/** True if JSON text is an array. */
export function isArray(text: string): boolean {
  return text.charCodeAt(firstCharacter(text)) === OPEN_ARRAY;
}

/**
 * Cuts the JSON text of an array into pieces, so that parsing a long body does not delay other requests. The caller
 * puts each piece in brackets and parses it. In two cases the caller must also refuse the text:
 * - A piece has no elements, although the array has some: then there is a comma too many.
 * - `isClosed` is false after the last piece: then the closing bracket is missing, or something follows it.
 */
export class ArrayPieces {
  readonly #text: string;
  #at: number;

  constructor(text: string) {
    this.#text = text;
    this.#at = firstCharacter(text) + 1;
  }

  /** True if nothing but the closing bracket of the array and white space followed the last piece. */
  get isClosed(): boolean {
    return this.#at <= this.#text.length && firstCharacter(this.#text, this.#at) === this.#text.length;
  }

  /**
   * Returns the next piece. If the next element is larger than `max`, the piece is only the beginning of this element,
   * and `isTooLong` is true. Yields an empty list after every CHARACTERS characters, so that the caller can serve other
   * requests.
   */
  *next(max: MaxSize): Generator<[], Piece> {
    const from = this.#at;
    const { end, ...faults } = yield* this.#endOf(from, max);
    this.#at = end + 1;
    return { text: this.#text.slice(from, end), ...faults, isLast: this.#text.charCodeAt(end) !== COMMA };
  }

  /** Finds the end of the piece that begins at `from`: a comma, the closing bracket, or the end of the text. */
  *#endOf(from: number, max: MaxSize): Generator<[], End> {
    const text = this.#text;
    const good = { isTooLong: false, isTooDeep: false };
    const limitFor = (element: number) => Math.min(text.length, element + max.length + 1);
    let element = from; // the beginning of the last element
    let delimiters = 0; // in this element
    let limit = limitFor(element);
    let depth = 0;
    let maxDepth = 0;
    let commas = 0;
    let pauseAt = from + CHARACTERS;
    for (let at = from; at < limit && delimiters <= max.delimiters; at++) {
      if (at >= pauseAt) {
        pauseAt = at + CHARACTERS;
        yield [];
      }
      const code = text.charCodeAt(at);
      if (code === QUOTE) {
        delimiters += 2;
        at = endOfString(text, at, limit);
      } else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
        delimiters += 2;
        maxDepth = Math.max(maxDepth, ++depth);
      } else if (code === CLOSE_ARRAY && depth === 0) return { end: at, ...good };
      else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;
      else if (code === COMMA) {
        commas++;
        delimiters++;
        if (depth > 0) continue;
        if (commas >= COMMAS || at - from >= CHARACTERS) return { end: at, ...good };
        element = at + 1;
        delimiters = 0;
        limit = limitFor(element);
      }
    }
    if (limit === text.length && delimiters <= max.delimiters) return { end: limit, ...good };
    if (element > from) return { end: element - 1, ...good };
    return { end: limit, isTooLong: true, isTooDeep: maxDepth > MAX_LEVELS };
  }
}

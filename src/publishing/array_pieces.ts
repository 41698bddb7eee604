import { endOfString, firstCharacter } from '../json.ts';

const [QUOTE, COMMA] = [0x22, 0x2c];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** A piece ends behind an element if it has this many characters, or commas: it takes about 1 ms to parse. */
const CHARACTERS = 16_384;
const COMMAS = 2500;

/** Consecutive elements of an array as JSON text, without the brackets. */
export interface Piece {
  text: string;
  /** True if the piece is the beginning of an element that is longer than allowed. */
  isTooLong: boolean;
  isLast: boolean;
}

/** True if JSON text is an array. */
export function isArray(text: string): boolean {
  return text.charCodeAt(firstCharacter(text)) === OPEN_ARRAY;
}

/**
 * Cuts an array into pieces that are parsed one by one, so that a long body does not keep others waiting. The whole is JSON exactly
 * if each piece in brackets is an array with elements (or the only one is empty), and the array `isClosed` at the end.
 */
export class ArrayPieces {
  readonly #text: string;
  #at: number;

  constructor(text: string) {
    this.#text = text;
    this.#at = firstCharacter(text) + 1;
  }

  /** True if the last piece ended with a bracket, and only white space follows it. */
  get isClosed(): boolean {
    return this.#at <= this.#text.length && firstCharacter(this.#text, this.#at) === this.#text.length;
  }

  /**
   * Returns a piece that seems to end behind an object, without looking for its end, which would take a tenth of
   * the time to parse it; undefined if there is none. It is a piece if it is JSON in brackets: then `take` it.
   */
  likely(): string | undefined {
    const end = this.#text.indexOf('},', this.#at + CHARACTERS) + 1;
    return end > 0 && end < this.#at + 2 * CHARACTERS ? this.#text.slice(this.#at, end) : undefined;
  }

  /** Goes on behind a likely piece. */
  take(piece: string): void {
    this.#at += piece.length + 1;
  }

  /** Returns the next piece, whose elements have at most `maxLength` characters each. */
  next(maxLength: number): Piece {
    const from = this.#at;
    const { end, isTooLong } = this.#endOf(from, maxLength);
    this.#at = end + 1;
    return { text: this.#text.slice(from, end), isTooLong, isLast: this.#text.charCodeAt(end) !== COMMA };
  }

  /** Finds the end of a piece: a comma, the closing bracket, or the end of the text. */
  #endOf(from: number, maxLength: number): { end: number; isTooLong: boolean } {
    const text = this.#text;
    const limitFor = (element: number) => Math.min(text.length, element + maxLength + 1);
    let [depth, commas, element, limit] = [0, 0, from, limitFor(from)];
    for (let at = from; at < limit; at++) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) at = endOfString(text, at, limit);
      else if (code === OPEN_ARRAY || code === OPEN_OBJECT) depth++;
      else if (code === CLOSE_ARRAY && depth === 0) return { end: at, isTooLong: false };
      else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;
      else if (code === COMMA) {
        commas++;
        if (depth > 0) continue;
        if (commas >= COMMAS || at - from >= CHARACTERS) return { end: at, isTooLong: false };
        element = at + 1;
        limit = limitFor(element);
      }
    }
    if (limit === text.length) return { end: limit, isTooLong: false };
    return element > from ? { end: element - 1, isTooLong: false } : { end: limit, isTooLong: true };
  }
}

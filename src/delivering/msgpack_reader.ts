import type { Packed } from '../store/packed.ts';

/** Reads MessagePack, value by value, from bytes that are held as text. Strings are cut out of it, and keep it in memory. */
export class MsgpackReader {
  /** A character a byte. */
  protected readonly latin1: string;
  #at = 0;

  constructor({ text }: Packed) {
    this.latin1 = text;
  }

  /** Where the next value begins. */
  get position(): number {
    return this.#at;
  }

  /** The next value, which must be a string. */
  string(): string {
    return utf8(this.cut(this.head()));
  }

  /** How many entries the map that begins here has. */
  mapLength(): number {
    const code = this.byte();
    if (code >= 0x80 && code < 0x90) return code & 0x0f;
    if (code === 0xde) return this.unsigned(2);
    if (code === 0xdf) return this.unsigned(4);
    throw new RangeError(`a map is expected at byte ${this.#at - 1}`);
  }

  /** How many entries the array that begins here has. */
  arrayLength(): number {
    const code = this.byte();
    if (code >= 0x90 && code < 0xa0) return code & 0x0f;
    if (code === 0xdc) return this.unsigned(2);
    if (code === 0xdd) return this.unsigned(4);
    throw new RangeError(`an array is expected at byte ${this.#at - 1}`);
  }

  /** How many bytes the string that begins here has. */
  protected head(): number {
    const code = this.byte();
    const length = code >= 0xa0 && code < 0xc0 ? code & 0x1f : this.stringLength(code);
    if (length === undefined) throw new RangeError(`a string is expected at byte ${this.#at - 1}`);
    return length;
  }

  /** The length of a string or binary value that has a length of its own; undefined for other codes. */
  protected stringLength(code: number): number | undefined {
    if (code === 0xd9 || code === 0xc4) return this.unsigned(1);
    if (code === 0xda || code === 0xc5) return this.unsigned(2);
    if (code === 0xdb || code === 0xc6) return this.unsigned(4);
    return undefined;
  }

  /** A whole number of so many bytes. */
  protected unsigned(size: number): number {
    return this.unsignedAt(this.skip(size), size);
  }

  protected unsignedAt(start: number, size: number): number {
    let number = 0;
    for (let at = start; at < start + size; at++) number = number * 256 + this.latin1.charCodeAt(at);
    return number;
  }

  protected cut(length: number): string {
    const start = this.skip(length);
    return this.latin1.slice(start, start + length);
  }

  protected byte(): number {
    return this.latin1.charCodeAt(this.skip(1));
  }

  /** Passes over so many bytes; answers where they begin. */
  protected skip(length: number): number {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.latin1.length)
      throw new RangeError(`the bytes end at ${this.latin1.length}, in a value`);
    return start;
  }
}

const ASCII = /^[\0-\x7f]*$/;

/** The text of which these are the bytes. */
export function utf8(bytes: string): string {
  return ASCII.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString();
}

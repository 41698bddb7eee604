/** Text that JSON takes as it is: ASCII without control characters, quotes and backslashes. */
export const PLAIN = /^[ !#-[\]-~]*$/;

/**
 * Writes stored MessagePack as JSON text, without building the values in between: whole 64-bit numbers keep every
 * digit, a key such as `__proto__` is a key like any other, and it is the quicker way on the hot path of delivery. Plain text
 * is cut out of `latin1`, which is half of the time that decoding and quoting each takes.
 */
export class MsgpackJson {
  readonly #bytes: Buffer;
  /** The bytes as text of a character each. */
  readonly #latin1: string;
  #at: number;

  /** Reads `bytes` from `at`. */
  constructor(bytes: Buffer, at = 0, latin1 = bytes.toString('latin1')) {
    this.#bytes = bytes;
    this.#latin1 = latin1;
    this.#at = at;
  }

  /** Where the next value begins. */
  get position(): number {
    return this.#at;
  }

  /** The next value as JSON text. Throws RangeError where the bytes end early or are no MessagePack. */
  value(): string {
    const code = this.#byte();
    if (code < 0x80) return String(code);
    if (code < 0x90) return this.#map(code & 0x0f);
    if (code < 0xa0) return this.#array(code & 0x0f);
    if (code < 0xc0) return this.#quoted(code & 0x1f);
    if (code >= 0xe0) return String(code - 0x100);
    return this.#long(code);
  }

  /** The next value, which must be a string; raw. */
  string(): string {
    const code = this.#byte();
    if (code >= 0xa0 && code < 0xc0) return this.#text(code & 0x1f);
    const length = this.#stringLength(code);
    if (length === undefined) throw new RangeError(`a string is expected at byte ${this.#at - 1}`);
    return this.#text(length);
  }

  /** How many entries the map that begins here has. */
  mapLength(): number {
    const code = this.#byte();
    if (code >= 0x80 && code < 0x90) return code & 0x0f;
    if (code === 0xde) return this.#unsigned(2);
    if (code === 0xdf) return this.#unsigned(4);
    throw new RangeError(`a map is expected at byte ${this.#at - 1}`);
  }

  /** How many entries the array that begins here has. */
  arrayLength(): number {
    const code = this.#byte();
    if (code >= 0x90 && code < 0xa0) return code & 0x0f;
    if (code === 0xdc) return this.#unsigned(2);
    if (code === 0xdd) return this.#unsigned(4);
    throw new RangeError(`an array is expected at byte ${this.#at - 1}`);
  }

  #long(code: number): string {
    const length = this.#stringLength(code);
    if (length !== undefined) return this.#quoted(length);
    switch (code) {
      case 0xc0:
        return 'null';
      case 0xc2:
        return 'false';
      case 0xc3:
        return 'true';
      case 0xca:
        return this.#float(4);
      case 0xcb:
        return this.#float(8);
      case 0xcc:
      case 0xcd:
      case 0xce:
        return String(this.#unsigned(1 << (code - 0xcc)));
      case 0xcf:
        return this.#unsigned64();
      case 0xd0:
      case 0xd1:
      case 0xd2:
        return String(this.#bytes.readIntBE(this.#skip(1 << (code - 0xd0)), 1 << (code - 0xd0)));
      case 0xd3:
        return String(this.#bytes.readBigInt64BE(this.#skip(8)));
      case 0xdc:
        return this.#array(this.#unsigned(2));
      case 0xdd:
        return this.#array(this.#unsigned(4));
      case 0xde:
        return this.#map(this.#unsigned(2));
      case 0xdf:
        return this.#map(this.#unsigned(4));
      default:
        throw new RangeError(
          `byte ${this.#at - 1} begins a value that JSON cannot hold (0x${code.toString(16)})`,
        );
    }
  }

  /** The length of a string or binary value that has a length of its own; undefined for other codes. */
  #stringLength(code: number): number | undefined {
    if (code === 0xd9 || code === 0xc4) return this.#unsigned(1);
    if (code === 0xda || code === 0xc5) return this.#unsigned(2);
    if (code === 0xdb || code === 0xc6) return this.#unsigned(4);
    return undefined;
  }

  #array(length: number): string {
    let json = '[';
    for (let i = 0; i < length; i++) json += (i === 0 ? '' : ',') + this.value();
    return `${json}]`;
  }

  #map(length: number): string {
    let json = '{';
    for (let i = 0; i < length; i++) {
      const key = this.value();
      json += `${i === 0 ? '' : ','}${key.startsWith('"') ? key : JSON.stringify(key)}:${this.value()}`;
    }
    return `${json}}`;
  }

  /** JSON has no NaN and no infinities: null, as everywhere in JavaScript. */
  #float(size: 4 | 8): string {
    const at = this.#skip(size);
    return JSON.stringify(size === 4 ? this.#bytes.readFloatBE(at) : this.#bytes.readDoubleBE(at));
  }

  #unsigned(size: number): number {
    return this.#bytes.readUIntBE(this.#skip(size), size);
  }

  /** A number; a BigInt takes ten times as long, and is only needed for the largest. */
  #unsigned64(): string {
    const start = this.#skip(8);
    const number = this.#bytes.readUInt32BE(start) * 2 ** 32 + this.#bytes.readUInt32BE(start + 4);
    return String(Number.isSafeInteger(number) ? number : this.#bytes.readBigUInt64BE(start));
  }

  #text(length: number): string {
    const start = this.#skip(length);
    return this.#bytes.toString('utf8', start, start + length);
  }

  #quoted(length: number): string {
    const plain = this.#latin1.slice(this.#at, this.#at + length);
    if (plain.length < length || !PLAIN.test(plain)) return JSON.stringify(this.#text(length));
    this.#at += length;
    return `"${plain}"`;
  }

  #byte(): number {
    return this.#latin1.charCodeAt(this.#skip(1));
  }

  #skip(length: number): number {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length)
      throw new RangeError(`the bytes end at ${this.#bytes.length}, in a value`);
    return start;
  }
}

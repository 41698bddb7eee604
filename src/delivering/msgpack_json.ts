import { MsgpackReader, utf8 } from './msgpack_reader.ts';

/** Text that JSON takes as it is: ASCII without control characters, quotes and backslashes. */
export const PLAIN = /^[ !#-[\]-~]*$/;

/**
 * Writes stored MessagePack as JSON text, without building the values in between: whole 64-bit numbers keep every
 * digit, a key such as `__proto__` is a key like any other, and it is the quicker way on the hot path of delivery. Plain text
 * is cut out as it is, which is half of the time that decoding and quoting each takes.
 */
export class MsgpackJson extends MsgpackReader {
  /** The next value as JSON text. Throws RangeError where the bytes end early or are no MessagePack. */
  value(): string {
    const code = this.byte();
    if (code < 0x80) return String(code);
    if (code < 0x90) return this.#map(code & 0x0f);
    if (code < 0xa0) return this.#array(code & 0x0f);
    if (code < 0xc0) return this.#quoted(code & 0x1f);
    if (code >= 0xe0) return String(code - 0x100);
    return this.#long(code);
  }

  #long(code: number): string {
    const length = this.stringLength(code);
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
        return String(this.unsigned(1 << (code - 0xcc)));
      case 0xcf:
        return this.#unsigned64();
      case 0xd0:
      case 0xd1:
      case 0xd2:
        return String(this.#copied(1 << (code - 0xd0)).readIntBE(0, 1 << (code - 0xd0)));
      case 0xd3:
        return String(this.#copied(8).readBigInt64BE());
      case 0xdc:
        return this.#array(this.unsigned(2));
      case 0xdd:
        return this.#array(this.unsigned(4));
      case 0xde:
        return this.#map(this.unsigned(2));
      case 0xdf:
        return this.#map(this.unsigned(4));
      default:
        throw new RangeError(
          `byte ${this.position - 1} begins a value that JSON cannot hold (0x${code.toString(16)})`,
        );
    }
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
    const bytes = this.#copied(size);
    return JSON.stringify(size === 4 ? bytes.readFloatBE() : bytes.readDoubleBE());
  }

  /** A number; a BigInt takes ten times as long, and is only needed for the largest. */
  #unsigned64(): string {
    const start = this.position;
    const number = this.unsigned(8);
    if (Number.isSafeInteger(number)) return String(number);
    return String(Buffer.from(this.latin1.slice(start, start + 8), 'latin1').readBigUInt64BE());
  }

  #quoted(length: number): string {
    const bytes = this.cut(length);
    return PLAIN.test(bytes) ? `"${bytes}"` : JSON.stringify(utf8(bytes));
  }

  #copied(length: number): Buffer {
    return Buffer.from(this.cut(length), 'latin1');
  }
}

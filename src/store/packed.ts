/**
 * Bytes, held as text with one character a byte (Latin-1). To join them to a command for Redis takes a third
 * of the CPU that Buffers take.
 */
export class Packed {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  static of(bytes: Buffer): Packed {
    return new Packed(bytes.toString('latin1'));
  }

  /** How many bytes. */
  get length(): number {
    return this.text.length;
  }

  toBuffer(): Buffer {
    return Buffer.from(this.text, 'latin1');
  }
}

/** The UTF-8 bytes of a text, one character a byte. */
export function packedUtf8(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1');
}

/**
 * Bytes, held as text of a character a byte (Latin-1). Packed and joined to a command for Redis it costs a third of what Buffers
 * do: a sixth of web's CPU in bulk.
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

/** The bytes of a text in UTF-8, a character each. */
export function packedUtf8(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1');
}

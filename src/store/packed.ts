/**
 * Bytes as text, one character a byte (Latin-1). Sending such a text takes a third of the CPU that sending a Buffer
 * takes.
 */
export class Packed {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  static of(bytes: Buffer): Packed {
    return new Packed(bytes.toString('latin1'));
  }

  toBuffer(): Buffer {
    return Buffer.from(this.text, 'latin1');
  }
}

/** Returns the UTF-8 bytes of a text in packed form: one character per byte. */
export function packedUtf8(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1');
}

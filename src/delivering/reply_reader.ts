import { Packed } from '../store/packed.ts';
import { MsgpackReader } from './msgpack_reader.ts';

/**
 * Reads what a script answers in MessagePack. What it gives is in memory of its own: a piece of the reply that somebody keeps (the
 * batch of a delivery that hangs, a token) would keep all of it.
 */
export class ReplyReader extends MsgpackReader {
  readonly #reply: Buffer;

  constructor(reply: Buffer) {
    super(Packed.of(reply));
    this.#reply = reply;
  }

  override string(): string {
    return this.#text('utf8');
  }

  /** The bytes of the next value, which must be a string. */
  packed(): Packed {
    return new Packed(this.#text('latin1'));
  }

  /** The next value, which must be a whole number of 0 or more. One above 2^53 is not exact. */
  integer(): number {
    const code = this.byte();
    if (code < 0x80) return code;
    if (code >= 0xcc && code <= 0xcf) return this.unsigned(1 << (code - 0xcc));
    throw new RangeError(`a whole number is expected at byte ${this.position - 1}`);
  }

  /** Whether the next value is nil or false, which is passed over then. */
  nothing(): boolean {
    const code = this.latin1.charCodeAt(this.position);
    if (code !== 0xc0 && code !== 0xc2) return false;
    this.skip(1);
    return true;
  }

  /** The next value, which must be an array, read by `read`: so many of its values at a time. */
  list<T>(values: number, read: () => T): T[] {
    const list: T[] = [];
    for (let left = this.arrayLength(); left > 0; left -= values) list.push(read());
    return list;
  }

  #text(encoding: 'utf8' | 'latin1'): string {
    const length = this.head();
    const start = this.skip(length);
    return this.#reply.toString(encoding, start, start + length);
  }
}

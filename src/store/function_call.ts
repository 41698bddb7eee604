import { Command } from 'ioredis';
import type { ScriptArgument } from './contract.ts';

/**
 * A command with more characters than this is converted to bytes in parts. As one string it could need more than 128
 * KiB, and V8 is slow to allocate such strings: converting 240 KB as one string took twice as long.
 */
const PART_LENGTH = 65_536;

/**
 * The command `FCALL` for a function with one key. ioredis would convert or copy the arguments one by one; to be
 * faster, this class joins them to one string and converts that to bytes. The reply has Buffers, not strings.
 */
export class FunctionCall extends Command {
  readonly #name: string;
  readonly #key: string;
  readonly #args: readonly ScriptArgument[];

  constructor(name: string, key: string, args: readonly ScriptArgument[]) {
    super('fcall', [], { replyEncoding: null });
    this.#name = name;
    this.#key = key;
    this.#args = args;
  }

  override toWritable(): Buffer {
    let text = `*${4 + this.#args.length}\r\n$5\r\nFCALL\r\n`;
    text += argument(this.#name) + argument(1) + argument(this.#key);
    const parts: Buffer[] = [];
    for (const each of this.#args) {
      if (text.length > PART_LENGTH) {
        parts.push(Buffer.from(text, 'latin1'));
        text = '';
      }
      text += argument(each);
    }
    const last = Buffer.from(text, 'latin1');
    return parts.length === 0 ? last : Buffer.concat([...parts, last]);
  }
}

/** Returns one item of a command in the Redis protocol: its length in bytes, then the bytes as Latin-1. */
function argument(value: ScriptArgument): string {
  const bytes = bytesOf(value);
  return `$${bytes.length}\r\n${bytes}\r\n`;
}

/** Returns the bytes of a value, one character for each. A text is sent as UTF-8. */
function bytesOf(value: ScriptArgument): string {
  if (typeof value === 'number') return String(value);
  if (typeof value !== 'string') return value.toString('latin1');
  return Buffer.byteLength(value) === value.length ? value : Buffer.from(value).toString('latin1');
}

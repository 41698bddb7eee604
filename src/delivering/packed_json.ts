type Json = string;

/**
 * Reads MessagePack, and returns the values as JSON text. It throws RangeError for bytes that are no MessagePack, for
 * extension types, and for keys that are lists or maps.
 *
 * Integers keep all digits. Binary strings and all keys become text. Bytes that are no UTF-8 become U+FFFD. The decoder
 * of `@msgpack/msgpack` cannot be used, because it refuses the key `__proto__`.
 */
export class PackedReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Returns the value at the present position, and moves the position to its end. */
  json(): Json {
    const type = this.#bytes.readUInt8(this.#skip(1));
    if (type <= 0x7f) return String(type);
    if (type <= 0x8f) return this.#map(type - 0x80);
    if (type <= 0x9f) return this.#array(type - 0x90);
    if (type <= 0xbf) return this.#text(type - 0xa0);
    if (type >= 0xe0) return String(type - 0x100);
    return this.#withLongHead(type);
  }

  /** Returns the members of the map at the present position, as JSON by name. Undefined if no map is there. */
  members(): Map<string, Json> | undefined {
    const type = this.#bytes.readUInt8(this.#skip(1));
    const isShort = type >= 0x80 && type <= 0x8f;
    if (!isShort && type !== 0xde) return;
    const members = new Map<string, Json>();
    const size = isShort ? type - 0x80 : this.#uint(2);
    for (let i = 0; i < size; i++) members.set(JSON.parse(this.#key()), this.json());
    return members;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  #withLongHead(type: number): Json {
    switch (type) {
      case 0xc0:
        return 'null';
      case 0xc2:
        return 'false';
      case 0xc3:
        return 'true';
      case 0xc4:
      case 0xd9:
        return this.#text(this.#uint(1));
      case 0xc5:
      case 0xda:
        return this.#text(this.#uint(2));
      case 0xc6:
      case 0xdb:
        return this.#text(this.#uint(4));
      case 0xca:
        return JSON.stringify(this.#bytes.readFloatBE(this.#skip(4)));
      case 0xcb:
        return JSON.stringify(this.#bytes.readDoubleBE(this.#skip(8)));
      case 0xcc:
      case 0xcd:
      case 0xce:
        return String(this.#uint(1 << (type - 0xcc)));
      case 0xcf:
        return String(this.#bytes.readBigUInt64BE(this.#skip(8)));
      case 0xd0:
      case 0xd1:
      case 0xd2:
        return String(this.#bytes.readIntBE(this.#skip(1 << (type - 0xd0)), 1 << (type - 0xd0)));
      case 0xd3:
        return String(this.#bytes.readBigInt64BE(this.#skip(8)));
      case 0xdc:
        return this.#array(this.#uint(2));
      case 0xdd:
        return this.#array(this.#uint(4));
      case 0xde:
        return this.#map(this.#uint(2));
      case 0xdf:
        return this.#map(this.#uint(4));
    }
    throw new RangeError(`type ${type} of MessagePack has no JSON`);
  }

  #map(size: number): Json {
    let members = '';
    for (let i = 0; i < size; i++) members += `${i === 0 ? '' : ','}${this.#key()}:${this.json()}`;
    return `{${members}}`;
  }

  /**
   * Returns a key of a map as a JSON string. A key that is no string becomes one: 5 becomes "5". A list or map as a key
   * is refused: each level of maps inside keys would double the length, and 50 bytes would become 33 MB.
   */
  #key(): Json {
    const key = this.json();
    if (key.startsWith('{') || key.startsWith('[')) throw new RangeError('a key is a list or map');
    return key.startsWith('"') ? key : `"${key}"`;
  }

  #array(size: number): Json {
    let items = '';
    for (let i = 0; i < size; i++) items += `${i === 0 ? '' : ','}${this.json()}`;
    return `[${items}]`;
  }

  #text(length: number): Json {
    const start = this.#skip(length);
    return JSON.stringify(this.#bytes.toString('utf8', start, this.#at));
  }

  #uint(length: number): number {
    return this.#bytes.readUIntBE(this.#skip(length), length);
  }

  /** Moves the position forward by `length` bytes. Returns the old position. */
  #skip(length: number): number {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) throw new RangeError('MessagePack ends too early');
    return start;
  }
}

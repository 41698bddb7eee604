const LINE_END = '\r\n';

/** Splits the bytes of a connection to Redis into whole messages: requests or replies, of RESP 2 or 3. */
export class RespReader {
  #rest: Buffer = Buffer.alloc(0);

  /** Returns the messages that these bytes complete, byte for byte. */
  read(bytes: Buffer): Buffer[] {
    const all = this.#rest.length > 0 ? Buffer.concat([this.#rest, bytes]) : bytes;
    const messages: Buffer[] = [];
    let from = 0;
    for (let to = endOf(all, from); to !== undefined; to = endOf(all, from)) {
      messages.push(all.subarray(from, to));
      from = to;
    }
    this.#rest = all.subarray(from);
    return messages;
  }
}

/** The first words of a request, up to `max`. */
export function firstWords(request: Buffer, max: number): string[] {
  const words: string[] = [];
  let at = request.indexOf(LINE_END) + 2;
  while (words.length < max && at < request.length) {
    const from = request.indexOf(LINE_END, at) + 2;
    const to = from + Number(request.toString('latin1', at + 1, from - 2));
    words.push(request.toString('latin1', from, to));
    at = to + 2;
  }
  return words;
}

/** Returns the end of the message that begins at `from`; undefined if the message is incomplete. */
function endOf(bytes: Buffer, from: number): number | undefined {
  let [at, items] = [from, 1];
  for (; items > 0; items--) {
    const lineEnd = bytes.indexOf(LINE_END, at);
    if (lineEnd < 0) return undefined;
    const type = String.fromCharCode(bytes[at] ?? 0);
    const line = bytes.toString('latin1', at + 1, lineEnd);
    at = lineEnd + 2;
    // -1 is RESP 2's null: nothing follows.
    const count = Math.max(Number(line), 0);
    if ('*~>'.includes(type)) items += count;
    else if (type === '%') items += 2 * count;
    else if (type === '|') items += 2 * count + 1;
    else if ('$!='.includes(type)) at += Number(line) < 0 ? 0 : count + 2;
    else if (!'+-:_,#('.includes(type)) throw new Error(`this is not RESP: ${type}${line}`);
  }
  return at <= bytes.length ? at : undefined;
}

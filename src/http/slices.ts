/** Maximum bytes of a slice, unless it is inside a body. */
const SLICE_BYTES = 4096;
const NOTHING = Buffer.alloc(0);
const HEAD_END = Buffer.from('\r\n\r\n');

/** Cuts the bytes of a connection into slices, so that the HTTP parser does not find many requests in one of them. */
export class Slices {
  #rest: Buffer = NOTHING;
  /**
   * Minimum number of bytes that are still to come of the last request's body (see `beginBody`). No request begins in
   * these bytes, so `next` may return them as one slice.
   */
  #minBodyBytesLeft = 0;
  /** Maximum number of body bytes in the last slice: its length, or 0 if it ended with the headers of a request. */
  #maxBodyBytesInSlice = 0;

  get isEmpty(): boolean {
    return this.#rest.length === 0;
  }

  add(bytes: Buffer): void {
    this.#rest = this.isEmpty ? bytes : Buffer.concat([this.#rest, bytes]);
  }

  /**
   * Removes and returns the next slice: all bytes, if they are at most SLICE_BYTES. Otherwise:
   *
   * - Inside a body: all arrived bytes of this body, because no request begins in them.
   * - At the headers of a request: only the headers, because they announce the length of the body. If the headers are
   *   longer than SLICE_BYTES, only their first SLICE_BYTES.
   */
  next(): Buffer {
    const { slice, endsHead } = this.#cut();
    this.#rest = this.#rest.length === slice.length ? NOTHING : this.#rest.subarray(slice.length);
    this.#minBodyBytesLeft = Math.max(0, this.#minBodyBytesLeft - slice.length);
    this.#maxBodyBytesInSlice = endsHead ? 0 : slice.length;
    return slice;
  }

  /**
   * Call this after a slice in which the headers of a request ended. `length` is the length of this request's body. The
   * slice may contain the beginning of the body, but Slices does not know how much. So it subtracts the length of the
   * whole slice.
   */
  beginBody(length: number): void {
    this.#minBodyBytesLeft = length - this.#maxBodyBytesInSlice;
  }

  take(): Buffer {
    const rest = this.#rest;
    this.#rest = NOTHING;
    return rest;
  }

  #cut(): { slice: Buffer; endsHead: boolean } {
    const rest = this.#rest;
    if (rest.length <= SLICE_BYTES) return { slice: rest, endsHead: false };
    if (this.#minBodyBytesLeft > 0)
      return { slice: rest.subarray(0, this.#minBodyBytesLeft), endsHead: false };
    const head = rest.subarray(0, SLICE_BYTES);
    const end = head.indexOf(HEAD_END);
    return end < 0
      ? { slice: head, endsHead: false }
      : { slice: head.subarray(0, end + HEAD_END.length), endsHead: true };
  }
}

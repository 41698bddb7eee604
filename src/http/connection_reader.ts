import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { clock } from '../clock.ts';
import type { ReadingMode } from './reading_mode.ts';
import type { WorkBudget } from './work_budget.ts';

/**
 * Maximum bytes that the HTTP parser gets at a time from a connection that is read in slices. One read of a socket
 * brings up to 64 KiB. These may be 3,600 requests, and other connections would wait for all of them.
 */
const SLICE_BYTES = 4096;
/**
 * The chunks of a body are called tiny if a slice contains more than this many chunks. Before each slice of tiny
 * chunks, WorkBudget lets other work run. 50 chunks take about 0.1 ms to parse, but a slice of one-byte chunks up to
 * 1.2 ms. Chunks are counted, not timed, because during an attack a slice of larger chunks sometimes takes as long.
 */
const MAX_CHUNKS = 50;
/**
 * When a request has been answered, Node discards the rest of its body without calling `push`, so its chunks cannot be
 * counted. They are called tiny if a slice takes longer than this to parse.
 */
const LONG_PARSING_MS = 0.1;
/**
 * If the parser gets this many chunks at a time, this looks like an attack: one read of a socket that is not read in
 * slices has brought them (a slice has room for 700 chunks), each has less than 30 bytes, and parsing them takes 3 ms.
 * From then on, all connections are read in slices (see ReadingMode).
 */
const ATTACK_CHUNKS = 2000;
/**
 * WorkBudget gives each owner of work, such as a client, the same share of its time. All tiny chunks count as the work
 * of this one owner. So a client gets no larger share by opening many connections.
 */
const TINY_CHUNKS = ':tiny_chunks';
const NOTHING = Buffer.alloc(0);

type Feed = (bytes: Buffer) => void;

/** The socket of a connection. Node sets `_paused` to true while the caller does not read the answers sent to it. */
type ServedSocket = Socket & { _paused?: boolean };

/** What the reader must know of the requests that came by its connection. */
interface Requests {
  /** True if a request waits for earlier ones, so that no more may be read. */
  readonly isHeldUp: boolean;
  /** The response to the last request that was parsed, if any. */
  readonly last: ServerResponse | undefined;
}

/**
 * Reads one connection, in one of three ways:
 *
 *     whole ──readInSlices──▶ in slices
 *       └────────── detach ───────┴─────▶ detached
 *
 * - `whole`: Node gives its HTTP parser all bytes of a read at once, and this class does nothing.
 * - `in slices`: the bytes that arrive are *unparsed*. `goOn` gives the parser a slice of them at a time, while it may
 *   have more (see `#mustWait`). If it must wait, the socket is paused, and the unparsed bytes go back into its buffer.
 * - `detached`: after a CONNECT or Upgrade request, another reader reads the socket.
 *
 * Before a slice of tiny chunks, which take long to parse, the parser also waits for a turn of WorkBudget.
 */
export class ConnectionReader {
  readonly #socket: ServedSocket;
  readonly #requests: Requests;
  readonly #budget: WorkBudget;
  readonly #mode: ReadingMode;
  readonly #feed: Feed;
  readonly #take = (bytes: Buffer) => this.#arrived(bytes);
  readonly #resumed = () => this.goOn();
  readonly #forget = () => this.#mode.remove(this);
  #way: 'whole' | 'in slices' | 'detached' = 'whole';
  #unparsed: Buffer = NOTHING;
  /** Number of body chunks in the bytes that the parser got last. Chunks that Node discards are not counted. */
  #chunks = 0;
  /** True if the body that is being parsed has tiny chunks. */
  #hasTinyChunks = false;
  /** The turn of WorkBudget that a slice of tiny chunks needs. It is over when the parser gets the slice. */
  #turn: 'none' | 'awaited' | 'come' = 'none';

  /** Takes over a socket that Node's server has just begun to serve. */
  constructor(socket: Socket, requests: Requests, budget: WorkBudget, mode: ReadingMode) {
    this.#socket = socket;
    this.#requests = requests;
    this.#budget = budget;
    this.#mode = mode;
    // Node's server has just added the last `data` listener. This listener passes bytes to the HTTP parser.
    this.#feed = socket.listeners('data').at(-1) as Feed;
    // Node resumes the socket after each answer. If the parser must wait, `goOn` pauses the socket again.
    socket.on('resume', this.#resumed).on('close', this.#forget);
    mode.add(this);
  }

  /**
   * From now on, gives the parser a small part of the arrived bytes at a time. Until now, Node's parser may have read
   * the socket directly. It stops when the listener for `data` is replaced. Nobody reads the socket then, so `push('')`
   * starts the next read.
   */
  readInSlices(): void {
    if (this.#way !== 'whole') return;
    this.#way = 'in slices';
    this.#forget();
    this.#socket.off('data', this.#feed).on('data', this.#take).push('');
  }

  /**
   * Must be called when the headers of a request have been parsed. If the body is chunked, the connection is read in
   * slices from now on, and the chunks are counted. The bytes that came together with the headers may still be parsed
   * as a whole.
   */
  watchBody({ req }: ServerResponse): void {
    this.#hasTinyChunks = false;
    if (!isChunked(req)) return;
    this.readInSlices();
    const { push } = req;
    req.push = (chunk) => {
      if (++this.#chunks === ATTACK_CHUNKS) this.#mode.slice();
      return push.call(req, chunk);
    };
  }

  /**
   * Gives the parser the unparsed bytes, until none is left or the parser must wait. Then reads on, or pauses the
   * socket.
   */
  goOn(): void {
    this.#parse();
    // A request that was parsed just now may have detached this reader. Another reader then reads the socket. If this
    // reader paused the socket, the other one would not resume it.
    if (this.#way === 'detached') return;
    if (this.#mustWait) this.#putBack();
    else this.#socket.resume();
  }

  /**
   * Gives up the socket after a CONNECT or Upgrade request. Returns the bytes that have not been parsed. The parser
   * must not get these, because Node may have given the parser to another connection.
   */
  detach(): Buffer {
    this.#way = 'detached';
    // If the caller was slow to read answers, `_paused` is true, and Node would resume the socket by itself. If Node
    // did so before the socket has a new listener, the bytes that arrive would be lost.
    this.#socket._paused = false;
    this.#forget();
    this.#socket.off('data', this.#take).off('resume', this.#resumed).off('close', this.#forget);
    const rest = this.#unparsed;
    this.#unparsed = NOTHING;
    return rest;
  }

  #arrived(bytes: Buffer): void {
    this.#unparsed = this.#unparsed.length === 0 ? bytes : Buffer.concat([this.#unparsed, bytes]);
    this.goOn();
  }

  #parse(): void {
    while (this.#unparsed.length > 0 && !this.#mustWait) {
      if (this.#hasTinyChunks && this.#turn === 'none') void this.#awaitTurn();
      else this.#parseSlice();
    }
  }

  /**
   * True if the parser must not get bytes now:
   * - A request waits for earlier ones, or tiny chunks wait for their turn in WorkBudget.
   * - Nobody reads the body that has arrived.
   * - The connection is closed. Node may have given the parser to another connection. The parser would then take these
   *   bytes for a request of the other connection's caller.
   * - The caller does not read its answers. Node has then paused the socket, and would throw if the parser got bytes.
   */
  get #mustWait(): boolean {
    const { destroyed, _paused } = this.#socket;
    const { isHeldUp, last } = this.#requests;
    return isHeldUp || this.#turn === 'awaited' || isFull(last?.req) || destroyed || _paused === true;
  }

  /**
   * Pauses the socket, and puts the unparsed bytes back into the socket's buffer. If this buffer were empty when the
   * caller ends its side of the connection, Node would treat the request as cut off.
   */
  #putBack(): void {
    this.#socket.pause();
    if (this.#unparsed.length > 0) this.#socket.unshift(this.#unparsed);
    this.#unparsed = NOTHING;
  }

  /** Waits for a turn of WorkBudget, and parses a slice in it. */
  async #awaitTurn(): Promise<void> {
    this.#turn = 'awaited';
    await this.#budget.whenFree(TINY_CHUNKS);
    this.#turn = 'come';
    // The unparsed bytes are in the socket's buffer. `read` makes the socket emit them, so a slice is parsed right now,
    // before the next `await`, and WorkBudget can measure how long that takes.
    this.#socket.read();
    // If the parser must wait (`#mustWait`), no slice was parsed. The turn is over all the same.
    if (this.#turn === 'come') this.#turn = 'none';
  }

  #parseSlice(): void {
    this.#turn = 'none';
    const slice = this.#unparsed.subarray(0, SLICE_BYTES);
    this.#unparsed = slice.length === this.#unparsed.length ? NOTHING : this.#unparsed.subarray(SLICE_BYTES);
    this.#chunks = 0;
    const beganMs = clock.monotonicMs();
    this.#feed(slice);
    if (this.#hadTinyChunks(clock.monotonicMs() - beganMs)) this.#hasTinyChunks = true;
  }

  /** Returns true if the slice that was parsed last, in this time, has tiny chunks. */
  #hadTinyChunks(tookMs: number): boolean {
    const { last } = this.#requests;
    if (!isChunked(last?.req)) return false;
    const isDiscarded = last?.writableFinished === true;
    return this.#chunks > MAX_CHUNKS || (isDiscarded && tookMs > LONG_PARSING_MS);
  }
}

function isChunked(request: IncomingMessage | undefined): boolean {
  return request?.headers['transfer-encoding'] !== undefined;
}

/** True if Node's buffer for the body is full, because nobody reads the body. */
function isFull(request: IncomingMessage | undefined): boolean {
  return request?.complete === false && request.readableLength >= request.readableHighWaterMark;
}

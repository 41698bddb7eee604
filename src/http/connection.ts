import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { clock } from '../clock.ts';
import type { ReadingMode } from './reading_mode.ts';
import type { WorkBudget } from './work_budget.ts';

/** Maximum requests of one connection that are handled at the same time. */
const MAX_DUE = 4;
/**
 * If parsing SLICE_BYTES of a chunked body takes longer than this, its chunks are tiny, and WorkBudget lets other work
 * run before the next bytes are parsed. Large chunks take 0.01 ms, and chunks of one byte up to 1.2 ms.
 */
const LONG_PARSING_MS = 0.1;
/**
 * If one read of a socket, of 64 KiB at most, has this many chunks of a body, they look like an attack: each has less
 * than 30 bytes, and parsing them takes 3 ms. From then on, the parser gets only SLICE_BYTES at a time, of any
 * connection.
 */
const MAX_UNSLICED_CHUNKS = 2000;
/**
 * Maximum bytes that the HTTP parser gets at a time. A whole read of a socket brings up to 64 KiB. The parser could
 * find 3,600 requests in them, and other connections would wait for all of these.
 */
const SLICE_BYTES = 4096;
const NOTHING = Buffer.alloc(0);
/**
 * WorkBudget divides its time equally among owners of work. Parsing the tiny chunks of all connections has this one
 * owner, so a client that opens many connections gets no larger share of the time.
 */
const TINY_CHUNKS = ':tiny_chunks';

type Feed = (bytes: Buffer) => void;

/** The socket of a connection. Node sets `_paused` to true while the caller does not read the answers sent to it. */
type ServedSocket = Socket & { _paused?: boolean };

/** A parsed request that must wait until earlier ones of its connection are answered. `start` begins to handle it. */
interface Held {
  response: ServerResponse;
  start: () => void;
}

/**
 * Handles at most four requests of one connection at a time. Otherwise a few kilobytes of pipelined requests would keep
 * all other connections waiting. When a fifth request arrives, the connection reads no more bytes until two of the four
 * are answered.
 */
export class Connection {
  readonly #socket: ServedSocket;
  readonly #budget: WorkBudget;
  readonly #mode: ReadingMode;
  readonly #feed: Feed;
  readonly #take = (bytes: Buffer) => this.#arrived(bytes);
  readonly #resumed = () => this.#resumedByNode();
  readonly #forget = () => this.#mode.remove(this);
  /** Unfinished responses, in the order of their requests. They finish in this order. */
  readonly #due: ServerResponse[] = [];
  readonly #held: Held[] = [];
  #unparsed: Buffer = NOTHING;
  #isDetached = false;
  #isSliced = false;
  /**
   * Counts the body chunks in the bytes that came together with the headers: very many look like an attack (see
   * `#watchChunks`). Undefined when no such bytes are being parsed.
   */
  #unslicedChunks: number | undefined;
  /**
   * True if the body that is being parsed has tiny chunks. They take long to parse, so WorkBudget lets other work run
   * before each slice of them.
   */
  #hasTinyChunks = false;
  #isWaitingForTurn = false;

  /** Takes over a connection that Node's server has just begun to serve. */
  constructor(socket: Socket, budget: WorkBudget, mode: ReadingMode) {
    this.#socket = socket;
    this.#budget = budget;
    this.#mode = mode;
    // Node's server has just added its `data` listener, as the last one. It passes bytes to the HTTP parser.
    this.#feed = socket.listeners('data').at(-1) as Feed;
    socket.on('resume', this.#resumed).on('close', this.#forget);
    mode.add(this);
  }

  /**
   * From now on, gives the HTTP parser a small part of the arrived bytes at a time, so that parsing can stop at a
   * request that must wait.
   *
   * Because of the `data` listener, Node's parser stops reading the socket, perhaps in the middle of a body. `push('')`
   * starts the next read.
   */
  readInSlices(): void {
    if (this.#isSliced) return;
    this.#isSliced = true;
    this.#socket.off('data', this.#feed).on('data', this.#take).push('');
  }

  /** The response to the last request that was parsed, if any. */
  get last(): ServerResponse | undefined {
    return this.#held.at(-1)?.response ?? this.#due.at(-1);
  }

  /** The response to the latest complete request, if any. Of all requests, only the newest can be incomplete. */
  get lastComplete(): ServerResponse | undefined {
    const responses = [...this.#due, ...this.#held.map(({ response }) => response)];
    return responses.findLast(({ req }) => req.complete);
  }

  /** True if no request has come, or the last one was read to its end and answered. */
  get isIdle(): boolean {
    const { last } = this;
    return !last || (isOver(last) && last.req.complete);
  }

  endWithLast(): void {
    const { last } = this;
    if (last && !last.headersSent) last.shouldKeepAlive = false;
  }

  /** Calls `start`, which handles a request: now, or when enough earlier requests are answered (see `#waitForHalf`). */
  begin(response: ServerResponse, start: () => void): void {
    this.#hasTinyChunks = false;
    if (isChunked(response)) this.#watchChunks(response);
    if (this.#held.length > 0 || !this.#mayStartAnother()) this.#hold({ response, start });
    else this.#start({ response, start });
  }

  /**
   * Stops handling the socket, after a CONNECT or Upgrade request. Returns the bytes that have not been parsed, and
   * forgets them: a later `#parse` must not give them to the parser, which Node may have reused for another connection.
   */
  detach(): Buffer {
    this.#isDetached = true;
    // If the caller was slow to read answers, Node has marked the socket as paused, and would resume it later, perhaps
    // before anybody else listens to it. Bytes that come then would be lost. So the mark is removed.
    this.#socket._paused = false;
    this.#forget();
    this.#socket.off('data', this.#take).off('resume', this.#resumed).off('close', this.#forget);
    const rest = this.#unparsed;
    this.#unparsed = NOTHING;
    return rest;
  }

  /**
   * Watches a chunked body for tiny chunks, which take long to parse. From now on, the parser gets SLICE_BYTES at a
   * time. If a slice takes it long, the chunks are tiny.
   *
   * The bytes that came with the headers are still parsed whole, so the chunks in them are counted. If they are
   * MAX_UNSLICED_CHUNKS, this looks like an attack, perhaps over several connections: then all connections are read in
   * slices.
   */
  #watchChunks({ req }: ServerResponse): void {
    if (!this.#isSliced) {
      this.#forget();
      this.readInSlices();
      this.#unslicedChunks = 0;
      setImmediate(() => (this.#unslicedChunks = undefined));
    }
    if (this.#unslicedChunks === undefined) return;
    const { push } = req;
    req.push = (chunk) => {
      if (this.#unslicedChunks !== undefined && ++this.#unslicedChunks === MAX_UNSLICED_CHUNKS)
        this.#mode.slice();
      return push.call(req, chunk);
    };
    setImmediate(() => {
      req.push = push;
    });
  }

  #hold(request: Held): void {
    this.#held.push(request);
    // The parser is in the middle of the bytes that it was given. Reading may stop only when it has parsed the rest.
    if (this.#held.length === 1) process.nextTick(() => this.#waitForHalf());
  }

  #start({ response, start }: Held): void {
    this.#due.push(response);
    start();
  }

  #mayStartAnother(): boolean {
    while (this.#due[0] && isOver(this.#due[0])) this.#due.shift();
    return this.#due.length < MAX_DUE;
  }

  /** Called at the event `resume`. Node resumes the socket after each answer, so it may have to be paused again. */
  #resumedByNode(): void {
    this.#parse();
    this.#pauseOrResume();
  }

  /**
   * Pauses the socket if bytes must wait (see `#mustWait`), and resumes it otherwise. Leaves a detached socket alone:
   * the Connection that takes it over after an Upgrade request would not resume it.
   */
  #pauseOrResume(): void {
    if (this.#isDetached) return;
    if (this.#mustWait) this.#socket.pause();
    else this.#socket.resume();
  }

  /**
   * True if the parser must not get bytes now:
   *
   * - A request waits for earlier ones, or tiny chunks wait for their turn in WorkBudget.
   * - Nobody reads the body that has arrived.
   * - The connection is closed. Node may use its parser for another connection, and the bytes could become a request
   *   with the credentials of another caller.
   * - The caller does not read its answers. Node's server has then paused the socket, and throws if it gets bytes.
   */
  get #mustWait(): boolean {
    const { destroyed, _paused } = this.#socket;
    const isHeldUp = this.#held.length > 0 || this.#isWaitingForTurn || isFull(this.last?.req);
    return isHeldUp || destroyed || _paused === true;
  }

  #arrived(bytes: Buffer): void {
    this.#unparsed = this.#unparsed.length === 0 ? bytes : Buffer.concat([this.#unparsed, bytes]);
    this.#parse();
  }

  #parse(): void {
    while (this.#unparsed.length > 0 && !this.#mustWait) {
      if (this.#hasTinyChunks) void this.#parseTinyChunks();
      else this.#parseSlice();
    }
  }

  #parseSlice(): void {
    const slice = this.#unparsed.subarray(0, SLICE_BYTES);
    this.#unparsed = slice.length === this.#unparsed.length ? NOTHING : this.#unparsed.subarray(SLICE_BYTES);
    const beganMs = clock.monotonicMs();
    this.#feed(slice);
    if (clock.monotonicMs() - beganMs > LONG_PARSING_MS) this.#hasTinyChunks = isChunked(this.last);
  }

  async #parseTinyChunks(): Promise<void> {
    this.#isWaitingForTurn = true;
    this.#pauseOrResume();
    await this.#budget.whenFree(TINY_CHUNKS);
    this.#isWaitingForTurn = false;
    if (!this.#mustWait) this.#parseSlice();
    this.#parse();
    this.#pauseOrResume();
  }

  /**
   * Stops reading, because a fifth request has come before the first four are answered. When two of the four are
   * answered, reading goes on in a later turn of the event loop, so that other connections come first.
   */
  #waitForHalf(): void {
    this.#mode.slice();
    this.#pauseOrResume();
    const goOn = () => setImmediate(() => void this.#goOn());
    const half = this.#due[MAX_DUE / 2 - 1];
    if (half && !isOver(half)) half.once('close', goOn);
    else goOn();
  }

  async #goOn(): Promise<void> {
    await this.#budget.whenFree();
    for (let next = this.#held[0]; next && this.#mayStartAnother(); next = this.#held[0]) {
      this.#held.shift();
      this.#start(next);
    }
    if (this.#held.length > 0) return this.#waitForHalf();
    this.#parse();
    this.#pauseOrResume();
  }
}

function isChunked(response: ServerResponse | undefined): boolean {
  return response?.req.headers['transfer-encoding'] !== undefined;
}

/** True if Node's buffer for the body is full, because nobody reads the body. */
function isFull(request: IncomingMessage | undefined): boolean {
  return request?.complete === false && request.readableLength >= request.readableHighWaterMark;
}

function isOver(response: ServerResponse): boolean {
  return response.writableFinished || response.destroyed;
}

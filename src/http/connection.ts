import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { clock } from '../clock.ts';
import type { ReadingMode } from './reading_mode.ts';
import { Slices } from './slices.ts';
import type { WorkBudget } from './work_budget.ts';

/**
 * Maximum requests of one connection that are handled at the same time. Four are enough, because few senders send a
 * request before the previous one is answered.
 */
const MAX_DUE = 4;
/**
 * A slice of a chunked body that takes longer than this to parse has tiny chunks. A slice takes 0.01 ms otherwise, and
 * up to 1.2 ms with chunks of one byte.
 */
const LONG_PARSING_MS = 0.1;
/**
 * If more chunks than this come along with the headers of a body, they are tiny. Parsing as many takes 3 ms. Chunks of 30
 * bytes or more are never as many, since Node reads 64 KiB at a time.
 */
const MAX_UNSLICED_CHUNKS = 2000;
/** The owner, in the work budget, of the parsing of tiny chunks. */
const TINY_CHUNKS = ':tiny_chunks';

type Feed = (bytes: Buffer) => void;

/** The socket of a connection. Node's server sets `_paused` while answers that the caller does not read pile up. */
type ServedSocket = Socket & { _paused?: boolean };

/** A request that the parser has emitted, but that must wait for earlier requests. `start` begins to handle it. */
interface Held {
  response: ServerResponse;
  start: () => void;
}

/**
 * Handles at most four requests of one connection at a time, however many the connection sends at once (pipelining).
 * Otherwise a few kilobytes of requests would keep all other connections waiting. When a fifth arrives, reading stops
 * until two of the four are answered. If the connection is read in slices (see ReadingMode), parsing stops too.
 */
export class Connection {
  readonly #socket: ServedSocket;
  readonly #budget: WorkBudget;
  readonly #mode: ReadingMode;
  readonly #feed: Feed;
  readonly #take = (bytes: Buffer) => this.#arrived(bytes);
  readonly #resumed = () => this.#goOnOrStay();
  readonly #forget = () => this.#mode.remove(this);
  /** Responses that are not finished yet, in the order of their requests. They finish in this order. */
  readonly #due: ServerResponse[] = [];
  /** Requests that must wait until earlier responses are finished. */
  readonly #held: Held[] = [];
  /** Bytes that have arrived and are not parsed yet. */
  readonly #slices = new Slices();
  #isDetached = false;
  #isSliced = false;
  /** True if the body that is being parsed has tiny chunks. Its slices then wait for a turn of the work budget. */
  #hasTinyChunks = false;
  #isWaitingForTurn = false;

  /** Takes over a connection that Node's server has just begun to serve. */
  constructor(socket: Socket, budget: WorkBudget, mode: ReadingMode) {
    this.#socket = socket;
    this.#budget = budget;
    this.#mode = mode;
    // The last `data` listener of the socket is that of Node's server, which passes bytes to the HTTP parser.
    this.#feed = socket.listeners('data').at(-1) as Feed;
    socket.on('resume', this.#resumed).on('close', this.#forget);
    mode.add(this);
  }

  /**
   * From now on, gives the HTTP parser a small part of the arrived bytes at a time, so that parsing can stop at a
   * request that must wait. Node's parser reads the socket by itself only until another `data` listener is added.
   *
   * If the connection is paused, Node has stopped reading the socket, and only its parser would start it again. The
   * empty `push` tells the socket that this read is over, so that the socket starts the next read itself. Without it, a
   * body that waited in that moment never ended.
   */
  readInSlices(): void {
    if (this.#isSliced) return;
    this.#isSliced = true;
    this.#socket.off('data', this.#feed).on('data', this.#take).push('');
  }

  /** The response to the last request that was parsed; undefined if there was none. */
  get last(): ServerResponse | undefined {
    return this.#held.at(-1)?.response ?? this.#due.at(-1);
  }

  /**
   * The response to the last request that was read to its end; undefined if there was none. Only the body of the last
   * request can be incomplete.
   */
  get lastComplete(): ServerResponse | undefined {
    const responses = [...this.#due, ...this.#held.map(({ response }) => response)];
    return responses.findLast(({ req }) => req.complete);
  }

  /** True if no request is under way: the last response is sent, and the request was read to its end. */
  get isIdle(): boolean {
    const { last } = this;
    return !last || (isOver(last) && last.req.complete);
  }

  /** Makes the last response end the connection, unless its headers are sent already. */
  endWithLast(): void {
    const { last } = this;
    if (last && !last.headersSent) last.shouldKeepAlive = false;
  }

  /**
   * Calls `start`, which handles a request, as soon as fewer than MAX_DUE earlier requests are under way. This may be
   * at once.
   */
  begin(response: ServerResponse, start: () => void): void {
    this.#hasTinyChunks = false;
    if (isChunked(response)) this.#watchChunks(response);
    if (this.#held.length > 0 || !this.#hasRoom()) this.#hold({ response, start });
    else this.#start({ response, start });
  }

  /**
   * Gives up the socket after a CONNECT or Upgrade request, because Node's HTTP parser no longer reads it. Returns the
   * bytes that were not parsed.
   */
  detach(): Buffer {
    this.#isDetached = true;
    // If Node has paused the socket, it would resume it when earlier answers are read. Nobody listens to the socket then,
    // so what follows the request would be lost.
    this.#socket._paused = false;
    this.#forget();
    this.#socket.off('data', this.#take).off('resume', this.#resumed).off('close', this.#forget);
    return this.#slices.take();
  }

  /**
   * Reads the rest of a chunked body in slices, so that the time that a slice takes shows whether its chunks are tiny.
   * What has arrived together with the headers is parsed whole. If these are many chunks, all connections are read in
   * slices for a minute.
   */
  #watchChunks({ req }: ServerResponse): void {
    if (this.#isSliced) return;
    this.#forget();
    this.readInSlices();
    let chunks = 0;
    const { push } = req;
    req.push = (chunk) => {
      if (++chunks === MAX_UNSLICED_CHUNKS) this.#mode.slice();
      return push.call(req, chunk);
    };
    setImmediate(() => {
      req.push = push;
    });
  }

  #hold(request: Held): void {
    this.#held.push(request);
    // The parser has yet to parse the rest of the bytes that it got. So reading stops after that, in the next tick.
    if (this.#held.length === 1) process.nextTick(() => this.#wait());
  }

  #start({ response, start }: Held): void {
    this.#due.push(response);
    start();
  }

  #hasRoom(): boolean {
    while (this.#due[0] && isOver(this.#due[0])) this.#due.shift();
    return this.#due.length < MAX_DUE;
  }

  /**
   * Parses the rest of what has arrived when the socket is resumed. Node resumes the socket after each answer, even if
   * bytes must wait.
   */
  #goOnOrStay(): void {
    this.#parse();
    this.#pauseOrResume();
  }

  /**
   * Reads the socket, unless bytes must wait. Leaves the socket alone after an Upgrade request, because the next
   * Connection would not resume it.
   */
  #pauseOrResume(): void {
    if (this.#isDetached) return;
    if (this.#mustWait) this.#socket.pause();
    else this.#socket.resume();
  }

  /**
   * True if the parser must not get bytes now:
   *
   * - while a request waits for earlier ones, or tiny chunks wait for a turn;
   * - while nobody reads the body that has arrived;
   * - while the caller does not read its answers. Node's server has paused the socket then, and throws if it gets bytes
   *   before it resumes the socket;
   * - when the connection is closed. Node has given its parser to another connection then, so the bytes would become a
   *   request of another caller, with the credentials of that caller.
   */
  get #mustWait(): boolean {
    const { destroyed, _paused } = this.#socket;
    const isHeldUp = this.#held.length > 0 || this.#isWaitingForTurn || isFull(this.last?.req);
    return isHeldUp || destroyed || _paused === true;
  }

  #arrived(bytes: Buffer): void {
    this.#slices.add(bytes);
    this.#parse();
  }

  /** Parses what has arrived, until a request must wait (see `#mustWait`). */
  #parse(): void {
    while (!this.#slices.isEmpty && !this.#mustWait) {
      const turn = this.#hasTinyChunks ? this.#budget.turn(TINY_CHUNKS) : undefined;
      if (turn) void this.#goOnAfter(turn);
      else this.#parseSlice();
    }
  }

  #parseSlice(): void {
    const before = this.last;
    const slice = this.#slices.next();
    const beganMs = clock.monotonicMs();
    this.#feed(slice);
    if (clock.monotonicMs() - beganMs > LONG_PARSING_MS) this.#hasTinyChunks = isChunked(this.last);
    if (this.last !== before) this.#slices.beginBody(lengthOfBody(this.last));
  }

  /** Parses the next slice of tiny chunks when it has its turn. */
  async #goOnAfter(turn: Promise<void>): Promise<void> {
    this.#isWaitingForTurn = true;
    this.#pauseOrResume();
    await turn;
    this.#isWaitingForTurn = false;
    if (!this.#mustWait) this.#parseSlice();
    this.#parse();
    this.#pauseOrResume();
  }

  /**
   * Stops reading, because one request more than MAX_DUE (4) has come. When two of the four are answered, reading goes
   * on in a later turn of the event loop, so that other connections are served first.
   */
  #wait(): void {
    this.#mode.slice();
    this.#pauseOrResume();
    const goOn = () => setImmediate(() => void this.#goOn());
    const half = this.#due[MAX_DUE / 2 - 1];
    if (half && !isOver(half)) half.once('close', goOn);
    else goOn();
  }

  async #goOn(): Promise<void> {
    const turn = this.#budget.turn();
    if (turn) await turn;
    for (let next = this.#held[0]; next && this.#hasRoom(); next = this.#held[0]) {
      this.#held.shift();
      this.#start(next);
    }
    if (this.#held.length > 0) return this.#wait();
    this.#parse();
    this.#pauseOrResume();
  }
}

/** Returns the length of the body that Content-Length announces, or 0 without that header. */
function lengthOfBody(response: ServerResponse | undefined): number {
  return Number(response?.req.headers['content-length'] ?? 0);
}

function isChunked(response: ServerResponse | undefined): boolean {
  return response?.req.headers['transfer-encoding'] !== undefined;
}

/** True if as much of the body waits for a reader as Node keeps. Node resumes the socket when the body is read. */
function isFull(request: IncomingMessage | undefined): boolean {
  return request?.complete === false && request.readableLength >= request.readableHighWaterMark;
}

function isOver(response: ServerResponse): boolean {
  return response.writableFinished || response.destroyed;
}

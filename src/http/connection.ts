import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { WorkBudget } from './work_budget.ts';

/** Maximum requests of a connection under way. Hardly any client sends one before the last is answered. */
const MAX_DUE = 4;
/**
 * Maximum bytes that the HTTP parser is given at once. It emits all requests in them, each of which takes 15 µs:
 * the 64 KiB that one read can bring may hold 3,600.
 */
const SLICE_BYTES = 4096;
const NOTHING = Buffer.alloc(0);

type Feed = (bytes: Buffer) => void;

/** A request that the parser has emitted: `start` handles it. */
interface Held {
  response: ServerResponse;
  start: () => void;
}

/**
 * Limits what one connection has under way, however many requests it sends at once (pipelining): a few are
 * handled at a time, and the rest is neither parsed nor read. Otherwise some kilobytes of requests would keep
 * all other connections waiting.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #budget: WorkBudget;
  readonly #feed: Feed;
  readonly #take = (bytes: Buffer) => this.#arrived(bytes);
  /** Node resumes the socket too, such as when an answer has been sent. */
  readonly #stay = () => this.#isWaiting && this.#socket.pause();
  /** Responses under way, in the order of their requests, which is the order in which they finish. */
  readonly #due: ServerResponse[] = [];
  /** Requests that wait until responses before them are finished. */
  readonly #held: Held[] = [];
  /** Bytes that have arrived, and that the parser has not been given. */
  #rest: Buffer = NOTHING;
  #isWaiting = false;
  #isDetached = false;

  /** Takes over a connection that Node's server has just begun to serve. */
  constructor(socket: Socket, budget: WorkBudget) {
    this.#socket = socket;
    this.#budget = budget;
    // This listener of Node's server gives its parser what the socket reads.
    this.#feed = socket.listeners('data').at(-1) as Feed;
    socket.off('data', this.#feed).on('data', this.#take).on('resume', this.#stay);
  }

  /** The response to the last request that was parsed; undefined if there was none. */
  get last(): ServerResponse | undefined {
    return this.#held.at(-1)?.response ?? this.#due.at(-1);
  }

  /** Calls `start`, which handles a request: now, or when enough of the requests before it are answered. */
  begin(response: ServerResponse, start: () => void): void {
    if (this.#held.length > 0 || !this.#hasRoom()) this.#held.push({ response, start });
    else this.#start({ response, start });
  }

  /** Gives the parser nothing more. Returns the bytes that it has not been given. */
  detach(): Buffer {
    this.#isDetached = true;
    this.#socket.off('data', this.#take).off('resume', this.#stay);
    const rest = this.#rest;
    this.#rest = NOTHING;
    return rest;
  }

  #start({ response, start }: Held): void {
    this.#due.push(response);
    start();
  }

  #hasRoom(): boolean {
    while (this.#due[0] && isOver(this.#due[0])) this.#due.shift();
    return this.#due.length < MAX_DUE;
  }

  #arrived(bytes: Buffer): void {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    if (!this.#isWaiting) this.#parse();
  }

  /** Gives the parser what has arrived, until a request has to wait. */
  #parse(): void {
    while (this.#rest.length > 0 && this.#held.length === 0) {
      const slice = this.#rest.subarray(0, SLICE_BYTES);
      this.#rest = this.#rest.length === slice.length ? NOTHING : this.#rest.subarray(slice.length);
      this.#feed(slice);
    }
    if (this.#held.length > 0) this.#wait();
  }

  /** Reads no more until half of the responses under way are finished, and then goes on in a turn of its own. */
  #wait(): void {
    this.#isWaiting = true;
    if (!this.#isDetached) this.#socket.pause();
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
    this.#isWaiting = false;
    this.#parse();
    if (!this.#isWaiting && !this.#isDetached) this.#socket.resume();
  }
}

function isOver(response: ServerResponse): boolean {
  return response.writableFinished || response.destroyed;
}

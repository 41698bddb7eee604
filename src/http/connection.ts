import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ConnectionReader } from './connection_reader.ts';
import type { ReadingMode } from './reading_mode.ts';
import type { WorkBudget } from './work_budget.ts';

/** Maximum requests of one connection that are handled at the same time. */
const MAX_DUE = 4;

/** A parsed request that must wait until earlier ones of its connection are answered. `start` begins to handle it. */
interface Held {
  response: ServerResponse;
  start: () => void;
}

/**
 * Handles at most four requests of one connection at a time. Otherwise a few kilobytes of pipelined requests would keep
 * all other connections waiting. When a fifth request has arrived, the connection is not read until two of the four are
 * answered.
 */
export class Connection {
  readonly #budget: WorkBudget;
  readonly #mode: ReadingMode;
  readonly #reader: ConnectionReader;
  /** Unfinished responses, in the order of their requests. They finish in this order. */
  readonly #due: ServerResponse[] = [];
  readonly #held: Held[] = [];

  /** Takes over a connection that Node's server has just begun to serve. */
  constructor(socket: Socket, budget: WorkBudget, mode: ReadingMode) {
    this.#budget = budget;
    this.#mode = mode;
    this.#reader = new ConnectionReader(socket, this, budget, mode);
  }

  get isHeldUp(): boolean {
    return this.#held.length > 0;
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
    this.#reader.watchBody(response);
    if (this.isHeldUp || !this.#mayStartAnother()) this.#hold({ response, start });
    else this.#start({ response, start });
  }

  /** Gives up the socket after a CONNECT or Upgrade request. Returns the bytes that have not been parsed. */
  detach(): Buffer {
    return this.#reader.detach();
  }

  #hold(request: Held): void {
    this.#held.push(request);
    // The parser is in the middle of the bytes that it was given, and reading can stop only at their end. The next tick
    // comes after the parser has reached this end.
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

  /**
   * Stops reading, because a fifth request has come before the first four are answered. When two of the four are
   * answered, reading goes on in a later turn of the event loop, so that other connections come first.
   */
  #waitForHalf(): void {
    this.#mode.slice();
    this.#reader.goOn();
    const startHeld = () => setImmediate(() => void this.#startHeld());
    const half = this.#due[MAX_DUE / 2 - 1];
    if (half && !isOver(half)) half.once('close', startHeld);
    else startHeld();
  }

  async #startHeld(): Promise<void> {
    await this.#budget.whenFree();
    for (let next = this.#held[0]; next && this.#mayStartAnother(); next = this.#held[0]) {
      this.#held.shift();
      this.#start(next);
    }
    if (this.isHeldUp) this.#waitForHalf();
    else this.#reader.goOn();
  }
}

function isOver(response: ServerResponse): boolean {
  return response.writableFinished || response.destroyed;
}

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type Answer, AnswerReader } from '../harness/http/answer_reader.ts';
import type { Random } from '../harness/random.ts';
import { ERRORS } from '../src/errors.ts';
import { broken, type Known, misspoken, type Sent, wellSpoken } from './grammar.ts';

/** The percentage of requests with broken framing, each on a connection of its own. */
const BROKEN_PERCENT = 15;
/** Longer than every time limit of the server. */
const ANSWERED_WITHIN_MS = 60_000;
const MAX_SAMPLES = 20;

export type Manner = 'malicious' | 'decent';

export interface Outcome {
  sent: number;
  /** Answers by status; 0 for a connection closed without one. */
  statuses: Map<number, number>;
  /** Unacceptable answers, with their requests. */
  faults: string[];
}

/** Sends one request after the other: malformed ones, or good ones for comparison. */
export class Attacker {
  readonly #port: number;
  readonly #known: Known;
  readonly #random: Random;
  readonly #outcome: Outcome = { sent: 0, statuses: new Map(), faults: [] };
  #kept: Kept | undefined;

  constructor(port: number, known: Known, random: Random) {
    this.#port = port;
    this.#known = known;
    this.#random = random;
  }

  async send(requests: number, manner: Manner): Promise<Outcome> {
    while (this.#outcome.sent < requests) {
      this.#outcome.sent++;
      const request = this.#draw(manner)(this.#random, this.#known);
      await (request.framed ? this.#keepOn(request) : this.#alone(request));
    }
    this.#kept?.close();
    return this.#outcome;
  }

  #draw(manner: Manner): typeof misspoken {
    if (manner === 'decent') return wellSpoken;
    return this.#random.whole(0, 99) < BROKEN_PERCENT ? broken : misspoken;
  }

  /** Reuses the connection of the last request if it is still open. */
  async #keepOn(request: Sent): Promise<void> {
    this.#kept ??= await Kept.open(this.#port);
    const answer = await this.#kept.ask(request);
    if (answer === 'none') this.#fault('no answer', request);
    else if (answer) this.#note(answer, request);
    else this.#count(0);
    if (!answer || answer === 'none' || answer.closes) {
      this.#kept.close();
      this.#kept = undefined;
    }
  }

  /** Uses a connection of its own and closes our end after the request; the server must close the other. */
  async #alone(request: Sent): Promise<void> {
    const socket = await open(this.#port);
    const reader = new AnswerReader();
    let answered = false;
    socket.on('data', (chunk) => {
      for (const answer of reader.read(String(chunk), request.method === 'HEAD')) {
        answered = true;
        this.#note(answer, request);
      }
    });
    const hung = setTimeout(() => {
      this.#fault('no end', request);
      socket.destroy();
    }, ANSWERED_WITHIN_MS);
    const closed = once(socket, 'close');
    socket.end(request.bytes);
    await closed;
    clearTimeout(hung);
    if (!answered) this.#count(0);
  }

  #note(answer: Answer, request: Sent): void {
    this.#count(answer.status);
    if (!isGood(answer, request.method)) this.#fault(answer.text.slice(0, 500), request);
  }

  #count(status: number): void {
    this.#outcome.statuses.set(status, (this.#outcome.statuses.get(status) ?? 0) + 1);
  }

  #fault(what: string, { bytes }: Sent): void {
    if (this.#outcome.faults.length >= MAX_SAMPLES) return;
    this.#outcome.faults.push(`${what}\n  to ${JSON.stringify(bytes.toString('latin1').slice(0, 1000))}`);
  }
}

/**
 * Returns true if an answer is acceptable. It must have no stack trace or path. A 5xx must be 501, or 503 with
 * Retry-After, and its code must have that status in the table of errors (an answer to HEAD has no code).
 */
function isGood({ status, text }: Answer, method: string): boolean {
  if (/\n\s+at |node:internal|\/src\//.test(text)) return false;
  if (status < 500) return status >= 200 || status === 101;
  const code = /"code":"(\w+)"/.exec(text)?.[1] ?? '';
  if (method !== 'HEAD' && ERRORS[code as keyof typeof ERRORS]?.status !== status) return false;
  return status === 501 || (status === 503 && /\r\nRetry-After: /i.test(text));
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => {}); // the close is what counts
  socket.setEncoding('latin1');
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  return socket;
}

/** A connection for well-framed requests. */
class Kept {
  readonly #socket: Socket;
  readonly #reader = new AnswerReader();
  #isHead = false;
  #answered: (answer: Answer | undefined | 'none') => void = () => {};

  static async open(port: number): Promise<Kept> {
    return new Kept(await open(port));
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => {
      for (const answer of this.#reader.read(String(chunk), this.#isHead)) this.#answered(answer);
    });
    socket.on('close', () => this.#answered(undefined));
  }

  /** Resolves with the answer; undefined if the connection is closed instead, `none` if neither happens in time. */
  ask({ bytes, method }: Sent): Promise<Answer | undefined | 'none'> {
    this.#isHead = method === 'HEAD';
    return new Promise((resolve) => {
      const hung = setTimeout(() => resolve('none'), ANSWERED_WITHIN_MS);
      this.#answered = (answer) => {
        clearTimeout(hung);
        resolve(answer);
      };
      if (this.#socket.destroyed) this.#answered(undefined);
      else this.#socket.write(bytes);
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}

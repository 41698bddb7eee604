import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** The answer to a request. */
export interface Answer {
  /** 0 if the connection ended before the answer. */
  status: number;
  /** Whether it has `Retry-After`. */
  retryAfter: boolean;
  /** The error that ended the connection. */
  error?: string;
}

/** A keep-alive connection for one request at a time. Raw, as bench/processes/load_connection.ts, to cost little beside the server. */
export class OfferConnection {
  readonly #socket: Socket;
  #received = '';
  #answered: ((answer: Answer) => void) | undefined;
  #open = true;

  static async open(port: number): Promise<OfferConnection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new OfferConnection(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (chunk) => this.#take(String(chunk)));
    let error = 'the server closed the connection';
    socket.on('error', ({ message }) => {
      error = message;
    });
    socket.on('close', () => this.#end(error));
  }

  /** Whether the server keeps the connection open. */
  get open(): boolean {
    return this.#open;
  }

  /** Calls `answered` exactly once, also if the connection ends. */
  send(request: string, answered: (answer: Answer) => void): void {
    this.#answered = answered;
    this.#socket.write(request, 'latin1');
  }

  close(): void {
    this.#socket.destroy();
  }

  #end(error: string): void {
    this.#open = false;
    this.#answer({ status: 0, retryAfter: false, error });
  }

  #answer(answer: Answer): void {
    const answered = this.#answered;
    this.#answered = undefined;
    answered?.(answer);
  }

  #take(chunk: string): void {
    this.#received += chunk;
    const end = this.#received.indexOf('\r\n\r\n');
    if (end < 0) return;
    const head = this.#received.slice(0, end);
    const bodyBytes = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#received.length < end + 4 + bodyBytes) return;
    this.#received = '';
    if (/\r\nconnection: *close/i.test(head)) this.#open = false;
    this.#answer({ status: Number(head.slice(9, 12)), retryAfter: /\r\nretry-after: *[1-9]/i.test(head) });
  }
}

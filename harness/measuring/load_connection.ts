import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface LoadAnswer {
  /** 0 if the connection ended before the answer. */
  status: number;
  /** The whole answer, or the reason why the connection ended. */
  text: string;
}

/**
 * A keep-alive connection for one request at a time. It is raw TCP, and takes a third of the CPU of Node's
 * HTTP client: a load generator that used more CPU than the server would measure itself.
 */
export class LoadConnection {
  readonly #socket: Socket;
  #received = '';
  #answered: ((answer: LoadAnswer) => void) | undefined;
  #ended: string | undefined;
  #lastText = '';

  static async open(port: number): Promise<LoadConnection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new LoadConnection(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (chunk) => this.#take(String(chunk)));
    let reason = 'the server closed the connection';
    socket.on('error', ({ message }) => {
      reason = message;
    });
    socket.on('close', () => {
      this.#ended = reason;
      this.#answer({ status: 0, text: reason });
    });
  }

  /** True if another request can be sent. */
  get open(): boolean {
    return this.#ended === undefined && !/\r\nconnection: *close/i.test(this.#lastText);
  }

  /** Sends a request. Calls `answered` exactly once, even if the connection ends, unless `close` is called before. */
  send(request: string, answered: (answer: LoadAnswer) => void): void {
    this.#answered = answered;
    if (this.#ended === undefined) this.#socket.write(request, 'latin1');
    else this.#answer({ status: 0, text: this.#ended });
  }

  close(): void {
    this.#answered = undefined;
    this.#socket.destroy();
  }

  #answer(answer: LoadAnswer): void {
    const answered = this.#answered;
    this.#answered = undefined;
    answered?.(answer);
  }

  #take(chunk: string): void {
    this.#received += chunk;
    const end = this.#received.indexOf('\r\n\r\n');
    if (end < 0) return;
    const bodyBytes = /\r\ncontent-length: *(\d+)/i.exec(this.#received)?.[1] ?? 0;
    if (this.#received.length < end + 4 + Number(bodyBytes)) return;
    const text = this.#received;
    this.#received = '';
    this.#lastText = text;
    this.#answer({ status: Number(text.slice(9, 12)), text });
  }
}

/** Returns an Error that quotes the answer; undefined if the answer is 2xx. */
export function refusalOf({ status, text }: LoadAnswer): Error | undefined {
  if (status >= 200 && status <= 299) return undefined;
  return new Error(status === 0 ? text : `a request was answered ${text.slice(9)}`);
}

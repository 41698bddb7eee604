import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { AnswerReader } from '../http/answer_reader.ts';
import { until } from '../until.ts';

/** Maximum wait for answers, longer than every time limit of web. */
const ANSWERED_WITHIN_MS = 150_000;

/** A connection for raw bytes: pipelined requests, halves of requests, and answers that nobody reads. */
export class RawConnection {
  /** The statuses of the answers so far. */
  readonly statuses: number[] = [];
  /** The last answer, head and body. */
  lastText = '';
  receivedBytes = 0;
  readonly #socket: Socket;
  readonly #reader = new AnswerReader();

  /** `answered` is called with the status of each answer. */
  static async open(port: number, answered: (status: number) => void = () => {}): Promise<RawConnection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new RawConnection(socket, answered);
  }

  private constructor(socket: Socket, answered: (status: number) => void) {
    this.#socket = socket;
    socket.setEncoding('latin1');
    socket.on('error', () => {}); // `open` is false then
    socket.on('data', (chunk: string) => {
      this.receivedBytes += chunk.length;
      for (const { status, text } of this.#reader.read(chunk)) {
        this.statuses.push(status);
        answered(status);
        this.lastText = text;
      }
    });
  }

  get open(): boolean {
    return !this.#socket.destroyed;
  }

  /** Sends these bytes. It is not an error if the connection has ended. */
  write(bytes: string | Buffer): void {
    if (this.open) this.#socket.write(bytes, 'latin1');
  }

  /** Resolves when this many answers have arrived in all, the connection has ended, or the attack is over. */
  async answered(count: number, signal?: AbortSignal): Promise<void> {
    const over = () => this.statuses.length >= count || !this.open || signal?.aborted;
    await until(over, { timeoutMs: ANSWERED_WITHIN_MS, what: `${count} answers` });
  }

  close(): void {
    this.#socket.destroy();
  }
}

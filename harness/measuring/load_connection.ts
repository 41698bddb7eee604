import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/**
 * A keep-alive connection for one request at a time. It is raw TCP and takes a third of the CPU of Node's HTTP client: a load
 * generator that costs more than its server would measure itself.
 */
export class LoadConnection {
  readonly #socket: Socket;
  #received = '';
  #answered: () => void = () => {};
  #failed: (error: Error) => void = () => {};

  static async open(port: number): Promise<LoadConnection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new LoadConnection(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (chunk) => this.#take(String(chunk)));
    socket.on('error', (error) => this.#failed(error));
    socket.on('close', () => this.#failed(new Error('the server closed the connection')));
  }

  /** Calls `answered` at every 2xx, and `failed` once at any other answer or a broken connection. */
  on(answered: () => void, failed: (error: Error) => void): void {
    this.#answered = answered;
    this.#failed = failed;
  }

  send(request: string): void {
    this.#socket.write(request, 'latin1');
  }

  close(): void {
    this.#failed = () => {};
    this.#socket.destroy();
  }

  #take(chunk: string): void {
    this.#received += chunk;
    const end = this.#received.indexOf('\r\n\r\n');
    if (end < 0) return;
    const bodyBytes = /\r\ncontent-length: *(\d+)/i.exec(this.#received)?.[1] ?? 0;
    if (this.#received.length < end + 4 + Number(bodyBytes)) return;
    const answer = this.#received;
    this.#received = '';
    if (answer.startsWith('HTTP/1.1 2')) this.#answered();
    else this.#failed(new Error(`a request was answered ${answer.slice(9)}`));
  }
}

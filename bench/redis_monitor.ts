import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const PROCESSES = 2;

/**
 * Counts the commands that clients send to a Redis, by MONITOR; INFO would count those of scripts too. For idle buses
 * only.
 */
export class CommandCount {
  readonly #socket: Socket;
  #text = '';

  static async start(url: string): Promise<CommandCount> {
    const { hostname, port } = new URL(url);
    const socket = url.startsWith('unix://')
      ? connect(url.slice('unix://'.length))
      : connect(Number(port), hostname);
    await once(socket, 'connect');
    const count = new CommandCount(socket);
    socket.write('MONITOR\r\n');
    return count;
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('utf8').on('data', (chunk) => {
      this.#text += chunk;
    });
  }

  /** Ends the count after `windowMs`. Returns the commands a second that a web and a worker process each sent. */
  stop(windowMs: number): number {
    this.#socket.destroy();
    const lines = this.#text.split('\r\n').filter((line) => line !== '+OK' && line !== '');
    const count = lines.filter((line) => !/^\+\S+ \[\d+ lua\]/.test(line)).length;
    return count / PROCESSES / (windowMs / 1000);
  }
}

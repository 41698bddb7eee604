import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** Counts the commands that a Redis is sent, but for those of scripts: INFO counts these too. Costs it something: for idle buses. */
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

  /** How many there were. */
  stop(): number {
    this.#socket.destroy();
    const lines = this.#text.split('\r\n').filter((line) => line !== '+OK' && line !== '');
    return lines.filter((line) => !/^\+\S+ \[\d+ lua\]/.test(line)).length;
  }
}

import { createServer, type Server } from 'node:net';
import { listenLocally } from '../../../harness/processes/ports.ts';

/** A listener that nobody should connect to. */
export class Canary {
  port = 0;
  readonly #server: Server;
  connections = 0;

  /** Listens on this port of the address; 0 for a free one. */
  static async start(address = '127.0.0.1', port = 0): Promise<Canary> {
    const canary = new Canary();
    canary.port = await listenLocally(canary.#server, { host: address, port });
    return canary;
  }

  private constructor() {
    this.#server = createServer((socket) => {
      this.connections++;
      socket.destroy();
    });
  }

  stop(): void {
    this.#server.close();
  }
}

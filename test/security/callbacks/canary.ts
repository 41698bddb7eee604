import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';

/** A listener that nobody should connect to. */
export class Canary {
  readonly #server: Server;
  connections = 0;

  /** Listens on this port of the address; 0 for a free one. */
  static async start(address = '127.0.0.1', port = 0): Promise<Canary> {
    const canary = new Canary();
    await once(canary.#server.listen(port, address), 'listening');
    return canary;
  }

  private constructor() {
    this.#server = createServer((socket) => {
      this.connections++;
      socket.destroy();
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  stop(): void {
    this.#server.close();
  }
}

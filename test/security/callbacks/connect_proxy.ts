import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';

/** A CONNECT proxy that takes every host for 127.0.0.1, and refuses `forbidden.example`. */
export class ConnectProxy {
  readonly targets: string[] = [];
  readonly authorizations: (string | undefined)[] = [];
  readonly #server: Server = createServer((_, response) => void response.writeHead(405).end());

  async start(): Promise<void> {
    this.#server.on('connect', (request, socket) => {
      this.targets.push(String(request.url));
      this.authorizations.push(request.headers['proxy-authorization']);
      const [host, port] = String(request.url).split(':');
      if (host === 'forbidden.example') return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      const upstream = connect(Number(port), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        upstream.pipe(socket).pipe(upstream);
      });
      for (const each of [socket, upstream]) each.on('error', () => {});
      socket.on('close', () => upstream.destroy());
    });
    await once(this.#server.listen(0, '127.0.0.1'), 'listening');
  }

  get url(): string {
    return `http://bus:hunter2@127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

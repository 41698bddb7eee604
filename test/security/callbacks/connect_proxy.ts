import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { listenLocally } from '../../../harness/processes/ports.ts';

/** A CONNECT proxy that takes every host for 127.0.0.1, and refuses `forbidden.example`. */
export class ConnectProxy {
  url = '';
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
    this.url = `http://bus:hunter2@127.0.0.1:${await listenLocally(this.#server)}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

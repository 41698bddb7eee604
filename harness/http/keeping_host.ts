import { createServer, type RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import { listenLocally } from '../processes/ports.ts';
import type { Owner } from '../processes/running_bus.ts';

/** Header of an answer that asks the bus to keep the connection for ten minutes. */
export const KEEP_FOR_MINUTES = { 'keep-alive': 'timeout=600' };

export const accept: RequestListener = (_, response) => void response.writeHead(204, KEEP_FOR_MINUTES).end();

/** A host of callbacks that ends no connection for ten minutes, and knows which are open. */
export class KeepingHost {
  readonly open = new Set<Socket>();
  requests = 0;
  /** Maximum connections that were open at a time. */
  maxOpen = 0;
  callback = '';

  static async start(owner: Owner, answer: RequestListener = accept): Promise<KeepingHost> {
    const host = new KeepingHost();
    const server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => {
      host.requests++;
      request.resume();
      answer(request, response);
    });
    server.on('connection', (socket) => {
      host.open.add(socket);
      host.maxOpen = Math.max(host.maxOpen, host.open.size);
      socket.on('error', () => {}).once('close', () => host.open.delete(socket));
    });
    owner.after(() => {
      server.close();
      server.closeAllConnections();
    });
    host.callback = `http://127.0.0.1:${await listenLocally(server)}/`;
    return host;
  }
}

import { once } from 'node:events';
import { type AddressInfo, createServer, type ListenOptions, type Server } from 'node:net';

/** Starts to listen on a free port of 127.0.0.1, or as the options say. Resolves with the port. */
export async function listenLocally(server: Server, options: ListenOptions = {}): Promise<number> {
  await once(server.listen({ port: 0, host: '127.0.0.1', ...options }), 'listening');
  return (server.address() as AddressInfo).port;
}

/** Returns a port of 127.0.0.1 on which nothing listens at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listenLocally(server);
  server.close();
  await once(server, 'close');
  return port;
}

/** Returns true if a server can listen on this port. Throws if the process may not listen there. */
export async function isFreePort(port: number): Promise<boolean> {
  // macOS permits listening on all addresses while another process listens on 127.0.0.1, which then gets the
  // requests.
  return (await canListen(port, '127.0.0.1')) && (await canListen(port));
}

function canListen(port: number, host?: string): Promise<boolean> {
  return new Promise((answer, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EACCES') reject(new Error(`port ${port} needs rights that this user has not`));
      else answer(false);
    });
    server.listen({ port, ...(host && { host }) }, () => server.close(() => answer(true)));
  });
}

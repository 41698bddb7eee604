import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type ListenOptions, type Server } from 'node:net';

/** The ports that `freePort` chooses from are lower than those that the system gives. */
const FIRST_PORT = 20_000;
const END_OF_PORTS = 32_768;

/** Starts to listen on a free port of 127.0.0.1, or as the options say. Resolves with the port. */
export async function listenLocally(server: Server, options: ListenOptions = {}): Promise<number> {
  await once(server.listen({ port: 0, host: '127.0.0.1', ...options }), 'listening');
  return (server.address() as AddressInfo).port;
}

/**
 * Returns a port of 127.0.0.1 on which nothing listens at this moment. It is not one of the ports that Linux and macOS
 * give to servers and connections that ask for any port. So no other program gets it before its user listens there.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST_PORT, END_OF_PORTS);
    if (await canListen(port, '127.0.0.1')) return port;
  }
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

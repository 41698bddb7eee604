import { once } from 'node:events';
import { createServer } from 'node:net';

/** Returns a port of 127.0.0.1 on which nothing listens at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
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

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Connection } from './connection.ts';
import { type ParserError, refuseMalformed } from './problems.ts';

export const CONNECTION = Symbol('connection');
const REFUSED = Symbol('refused');

/**
 * The socket of an HTTP connection, with its Connection. The member REFUSED is set when bytes on the socket are refused
 * as unreadable.
 */
export type Line = Socket & { [CONNECTION]?: Connection; [REFUSED]?: true };

/**
 * Refuses bytes that the HTTP parser cannot read. The answer is sent after the answers to the complete requests before
 * these bytes, because Node reports the error while those requests are still being handled.
 */
export function refuseUnreadable(error: ParserError, socket: Line): void {
  if (error.code === 'ECONNRESET') return void socket.destroy();
  // The bytes are refused only once, although the parser reports an error for each chunk that follows.
  if (socket[REFUSED]) return;
  socket[REFUSED] = true;
  afterAnswers(socket, () => refuseMalformed(error, socket));
}

/**
 * Calls `act` when the responses to all complete requests on a connection are sent. Does not call it if one of these
 * responses ends the connection.
 */
export function afterAnswers(socket: Line, act: () => void): void {
  const last = socket[CONNECTION]?.lastComplete;
  if (!last || last.writableFinished || last.destroyed) act();
  else
    last.once('finish', () => {
      if (socket.writable) act();
    });
}

/** Returns the head of a request without its Upgrade header, because the bus serves no other protocol. */
export function withoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`);
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
}

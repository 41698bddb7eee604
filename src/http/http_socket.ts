import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Connection } from './connection.ts';
import { type ParserError, refuseMalformed } from './problems.ts';

export const CONNECTION = Symbol('connection');
const REFUSED = Symbol('refused');

/** The socket of an HTTP connection, with its Connection. REFUSED is true once the bus has refused unreadable bytes. */
export type HttpSocket = Socket & { [CONNECTION]?: Connection; [REFUSED]?: true };

/**
 * Answers bytes that the HTTP parser cannot read with an error, after the answers to earlier requests. Earlier requests
 * may still be handled when Node reports the unreadable bytes.
 */
export function refuseUnreadable(error: ParserError, socket: HttpSocket): void {
  if (error.code === 'ECONNRESET') return void socket.destroy();
  // The parser reports an error for each further chunk too. Only the first one is answered.
  if (socket[REFUSED]) return;
  socket[REFUSED] = true;
  afterAnswers(socket, () => refuseMalformed(error, socket));
}

/**
 * Calls `act` when the responses to all complete requests have been sent. Never calls it if one of these responses ends
 * the connection.
 */
export function afterAnswers(socket: HttpSocket, act: () => void): void {
  const last = socket[CONNECTION]?.lastComplete;
  if (!last || last.writableFinished || last.destroyed) act();
  else
    last.once('finish', () => {
      if (socket.writable) act();
    });
}

/** Returns the head of a request without its Upgrade header. */
export function withoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`);
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
}

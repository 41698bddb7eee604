import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Answer } from '../routing/route.ts';

const JSON_TYPE = { 'Content-Type': 'application/json; charset=utf-8' };

/** Sends an answer, and resolves with the approximate length of its body. Throws if the body cannot be made. */
export async function send(response: ServerResponse, { status, headers, body }: Answer): Promise<number> {
  if (isPieces(body)) return await sendPieces(response.writeHead(status, { ...JSON_TYPE, ...headers }), body);
  if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) {
    const length = Buffer.byteLength(body ?? '');
    // A 204 has no Content-Length. Without this header, Node would send any other answer in chunks, even if its body is
    // empty. To a caller with HTTP/1.0, Node would close the connection after the answer.
    response.writeHead(status, status === 204 ? headers : { 'Content-Length': length, ...headers }).end(body);
    return length;
  }
  const text = JSON.stringify(body);
  const length = Buffer.byteLength(text);
  response.writeHead(status, { ...JSON_TYPE, 'Content-Length': length, ...headers }).end(text);
  return length;
}

export function isPieces(body: unknown): body is AsyncIterable<string> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}

/**
 * Yields the pieces of a body one by one. `inTurn` gets the function that makes the next piece, and may let other
 * requests go first before it calls this function.
 */
export async function* eachIn(
  inTurn: <T>(make: () => Promise<T>) => Promise<T>,
  pieces: AsyncIterable<string>,
): AsyncGenerator<string> {
  const iterator = pieces[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await inTurn(() => iterator.next());
      if (done) return;
      yield value;
    }
  } finally {
    await iterator.return?.();
  }
}

async function sendPieces(response: ServerResponse, pieces: AsyncIterable<string>): Promise<number> {
  // If the caller has closed the connection, there is nobody to send to, and `pipeline` would throw.
  if (response.destroyed) return 0;
  let bytes = 0;
  const counted = async function* () {
    for await (const piece of pieces) {
      bytes += piece.length;
      yield piece;
    }
  };
  await pipeline(Readable.from(counted()), response).catch((error: NodeJS.ErrnoException) => {
    // A premature close is no failure: the caller has closed the connection.
    if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  });
  return bytes;
}

/** Headers that make a browser treat an answer as data: run nothing in it, show it in no frame, and keep no copy. */
export const BROWSER_HEADERS = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
};

const HEADERS = new Map(Object.entries(BROWSER_HEADERS));
/** Makes browsers use only https for this bus, for a year. */
const HTTPS_HEADERS = new Map(HEADERS).set('Strict-Transport-Security', 'max-age=31536000');

/**
 * Sets headers for browsers on the answer to a GET or HEAD. Leaves them out for other methods, mostly publishes,
 * because this saves CPU. If such a request fails, problems.ts sets BROWSER_HEADERS on the error.
 */
export function setBrowserHeaders(
  { method }: IncomingMessage,
  response: ServerResponse,
  forceSsl: boolean,
): void {
  if (method === 'GET' || method === 'HEAD') response.setHeaders(forceSsl ? HTTPS_HEADERS : HEADERS);
}

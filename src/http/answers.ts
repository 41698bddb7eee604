import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Answer } from '../route.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

/** Sends the answer; the body of one to HEAD is left out by Node. Throws what the pieces of a body throw. */
export async function send(response: ServerResponse, { status, headers, body }: Answer): Promise<void> {
  if (isPieces(body)) return sendPieces(response.writeHead(status, headers), body);
  if (body === undefined || typeof body === 'string') {
    response.writeHead(status, headers).end(body);
    return;
  }
  const text = JSON.stringify(body);
  const length = Buffer.byteLength(text);
  response.writeHead(status, { 'Content-Type': JSON_TYPE, 'Content-Length': length, ...headers }).end(text);
}

function isPieces(body: unknown): body is AsyncIterable<string> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}

async function sendPieces(response: ServerResponse, pieces: AsyncIterable<string>): Promise<void> {
  await pipeline(Readable.from(pieces), response).catch((error: NodeJS.ErrnoException) => {
    // The caller has gone.
    if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  });
}

/**
 * Tell a browser that an answer is data: it runs nothing, is shown in no frame, and no cache keeps it. These are helmet's headers
 * but for those that concern pages.
 */
export const BROWSER_HEADERS = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
};

/** Browsers are to come by https for a year. */
const HTTPS_ONLY = 'max-age=31536000';

const HEADERS = new Map(Object.entries(BROWSER_HEADERS));
const HTTPS_HEADERS = new Map(HEADERS).set('Strict-Transport-Security', HTTPS_ONLY);

/** Sets them on answers that a browser shows. A publish has nothing to show, and does not pay for them. */
export function setBrowserHeaders(
  { method }: IncomingMessage,
  response: ServerResponse,
  forceSsl: boolean,
): void {
  if (method === 'GET' || method === 'HEAD') response.setHeaders(forceSsl ? HTTPS_HEADERS : HEADERS);
}

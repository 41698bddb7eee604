import type { ServerResponse } from 'node:http';
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

import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import { BusError } from '../errors.ts';
import { parseJson } from './json.ts';

/** The longest body: a thousand events with a few kilobytes of data each. */
export const MOST_BODY_BYTES = 5 * 1024 * 1024;

/**
 * Reads the whole body, as text. Whatever the content type says, bodies are JSON: that is what Routemaster's clients
 * were told. Throws bad_body, body_too_large or unsupported_encoding.
 */
export async function readText(request: IncomingMessage): Promise<string> {
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    throw new BusError(
      'unsupported_encoding',
      `send the body as it is, without Content-Encoding: ${encoding}`,
    );
  }
  const bytes = await readBytes(request);
  if (!isUtf8(bytes)) throw new BusError('bad_body', 'the body is not UTF-8');
  return bytes.toString('utf8');
}

/** The body as JSON. Throws as `readText` and `parseJson`. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  return parseJson(await readText(request));
}

/** Puts the parsed body into `request.body`. */
export const jsonBody: RequestHandler = async (request, _response, next) => {
  request.body = await readJson(request);
  next();
};

/** What is over the limit is read and forgotten: a client that is still sending would not see the answer otherwise. */
function readBytes(request: IncomingMessage): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > MOST_BODY_BYTES) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let length = 0;
    request.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length <= MOST_BODY_BYTES) return void chunks.push(chunk);
      chunks = [];
      reject(tooLarge());
    });
    request.on('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    request.on('error', (cause) => reject(new BusError('bad_body', 'the body ended early', { cause })));
  });
}

function tooLarge(): BusError {
  const detail = `the body is larger than ${MOST_BODY_BYTES} bytes; send fewer events at a time`;
  return new BusError('body_too_large', detail);
}

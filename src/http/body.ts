import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import { BusError } from '../errors.ts';
import { askForBody } from './expectation.ts';
import { parseJson } from './json.ts';

/** The longest body: a thousand events with a few kilobytes of data each. */
export const MOST_BODY_BYTES = 5 * 1024 * 1024;

/** Told how many bytes of a body have come; may throw. */
export interface Watch {
  arrived(bytes: number): void;
}

/**
 * Reads the whole body, as text. Whatever the content type says, bodies are JSON: that is what Routemaster's clients
 * were told. Throws bad_body, body_too_large or unsupported_encoding, or what `watch` throws, which is told of every chunk.
 */
export function readText(request: IncomingMessage, watch?: Watch): Promise<string> {
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    const detail = `send the body as it is, without Content-Encoding: ${encoding}`;
    return Promise.reject(new BusError('unsupported_encoding', detail));
  }
  if (Number(request.headers['content-length'] ?? 0) > MOST_BODY_BYTES) return Promise.reject(tooLarge());
  // Its sender has gone while nobody listened: no event would tell of it any more.
  if (request.destroyed) return Promise.reject(endedEarly());
  if (request.headers.expect !== undefined) askForBody(request);
  return new Promise((resolve, reject) => read(request, { watch, resolve, reject }));
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

interface ReadingParts {
  watch: Watch | undefined;
  resolve: (text: string) => void;
  reject: (error: unknown) => void;
}

/** What is over the limit is read and forgotten: a client that is still sending would not see the answer otherwise. */
function read(request: IncomingMessage, { watch, resolve, reject }: ReadingParts): void {
  let chunks: Buffer[] = [];
  let length = 0;
  const refuse = (error: unknown) => {
    chunks = [];
    length = Number.POSITIVE_INFINITY;
    reject(error);
  };
  request.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length > MOST_BODY_BYTES) return refuse(tooLarge());
    try {
      watch?.arrived(chunk.length);
      chunks.push(chunk);
    } catch (error) {
      refuse(error);
    }
  });
  request.on('end', () => {
    const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    if (isUtf8(bytes)) resolve(bytes.toString('utf8'));
    else reject(new BusError('bad_body', 'the body is not UTF-8'));
  });
  request.on('error', (cause) => reject(endedEarly(cause)));
  request.on('close', () => {
    // An error takes its stack along: 3 % of the CPU of a bulk publish, were it made for each.
    if (!request.readableEnded) reject(endedEarly());
  });
}

function endedEarly(cause?: Error): BusError {
  return new BusError('bad_body', 'the body ended early', { cause });
}

function tooLarge(): BusError {
  const detail = `the body is larger than ${MOST_BODY_BYTES} bytes; send fewer events at a time`;
  return new BusError('body_too_large', detail);
}

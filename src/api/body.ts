import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import { BusError } from '../errors.ts';

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

/** The body as JSON. Throws as `readText`, and bad_body if it is empty or malformed. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  return parseJson(await readText(request));
}

/** Throws bad_body, saying what is wrong with the JSON; `where` is put in front. */
export function parseJson(text: string, where = 'the body'): unknown {
  if (text.trim() === '') throw new BusError('bad_body', `${where} is empty; send JSON`);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new BusError('bad_body', `${where} is not JSON: ${(cause as Error).message}`, { cause });
  }
}

/** Puts the parsed body into `request.body`. */
export const jsonBody: RequestHandler = async (request, _response, next) => {
  request.body = await readJson(request);
  next();
};

function readBytes(request: IncomingMessage): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > MOST_BODY_BYTES) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    request.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > MOST_BODY_BYTES) {
        request.pause();
        reject(tooLarge());
      } else chunks.push(chunk);
    });
    request.on('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    request.on('error', (cause) => reject(new BusError('bad_body', 'the body ended early', { cause })));
  });
}

/** The rest of the body is not read, so the connection cannot go on. */
function tooLarge(): BusError {
  const detail = `the body is larger than ${MOST_BODY_BYTES} bytes; send fewer events at a time`;
  return new BusError('body_too_large', detail, { headers: { Connection: 'close' } });
}

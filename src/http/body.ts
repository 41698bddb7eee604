import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { BusError } from '../errors.ts';
import { MAX_BODY_BYTES, MAX_PUBLISH_BYTES } from '../routing/route.ts';
import type { Reservation } from './reservation.ts';

type Watch = Pick<Reservation, 'pauseAfter' | 'arrived' | 'whenTakenBack'>;

/** For each request with `Expect: 100-continue`: the function that tells the sender to send the body. */
const askers = new WeakMap<IncomingMessage, () => void>();

/**
 * The sender of a request with `Expect: 100-continue` sends the body only when `readBytes` asks for it. If the bus
 * answers the request without asking, it also closes the connection: the sender may still send the body, and the bus
 * could not tell this body from the next request.
 */
export function askWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const keepAlive = response.shouldKeepAlive;
  response.shouldKeepAlive = false;
  askers.set(request, () => {
    response.shouldKeepAlive = keepAlive;
    response.writeContinue();
  });
}

/** Throws bad_body if the connection is already closed, because `readBytes` would wait for events that never come. */
export function checkIsOpen(request: IncomingMessage): void {
  if (request.destroyed) throw endedEarly();
}

/**
 * Reads the whole body of an open request. `watch` gets the length of every chunk, and can refuse the body by throwing.
 * Throws bad_body, body_too_large, or an error of `watch`. Also reads the rest of a refused body, and discards it: some
 * senders look at the answer only after they have sent the whole body.
 */
export function readBytes(
  request: IncomingMessage,
  maxBytes = MAX_BODY_BYTES,
  watch?: Watch,
): Promise<Buffer[]> {
  if (request.headers.expect !== undefined) askers.get(request)?.();
  const { promise, resolve, reject } = Promise.withResolvers<Buffer[]>();
  let chunks = new Chunks();
  let length = 0;
  const refuse = (error: unknown) => {
    chunks = new Chunks();
    length = Number.POSITIVE_INFINITY;
    reject(error);
  };
  watch?.whenTakenBack(refuse);
  request.on('data', (chunk: Buffer) => {
    const pauseMs = watch?.pauseAfter(chunk.length) ?? 0;
    if (pauseMs > 0) pause(request, pauseMs);
    length += chunk.length;
    if (length > maxBytes) return refuse(tooLarge(maxBytes));
    try {
      watch?.arrived(chunk.length);
      chunks.add(chunk);
    } catch (error) {
      refuse(error);
    }
  });
  request.on('end', () => resolve(chunks.take()));
  request.on('close', () => {
    // If the body is complete, the promise has been resolved already, and needs no error.
    if (!request.readableEnded) reject(endedEarly(request.errored ?? undefined));
  });
  return promise;
}

/** Returns the text of a body. Throws bad_body. */
export function textOf(chunks: readonly Buffer[]): string {
  const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
  if (!isUtf8(bytes)) throw notUtf8();
  return bytes.toString('utf8');
}

/**
 * Decodes a body as `textOf` does, but awaits `whenFree` before each chunk, because decoding 5 MiB at once takes up to
 * 10 ms.
 */
export async function textInTurns(chunks: readonly Buffer[], whenFree: () => Promise<void>): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    let text = '';
    for (const chunk of chunks) {
      await whenFree();
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    throw error instanceof TypeError ? notUtf8() : error;
  }
}

/** Returns an error if the headers already show that the body cannot be read. */
export function bodyRefusal({ headers }: IncomingMessage, maxBytes: number): BusError | undefined {
  const encoding = headers['content-encoding'] ?? '';
  if (encoding !== '' && encoding.toLowerCase() !== 'identity')
    return new BusError(
      'unsupported_encoding',
      `send the body as it is, without Content-Encoding: ${encoding}`,
    );
  return Number(headers['content-length'] ?? 0) > maxBytes ? tooLarge(maxBytes) : undefined;
}

/**
 * Chunks shorter than SHORT_CHUNK are copied into blocks of BLOCK_BYTES, because each chunk takes 400 bytes besides its
 * content. A body of 5 MiB in chunks of one byte took 2 GB. The first chunk, often the only one, is not copied.
 */
const SHORT_CHUNK = 4096;
const BLOCK_BYTES = 16_384;
const NO_BYTES = Buffer.alloc(0);

class Chunks {
  readonly #whole: Buffer[] = [];
  #block = NO_BYTES;
  #blockBytes = 0;

  add(chunk: Buffer): void {
    if (this.#whole.length === 0 || chunk.length >= SHORT_CHUNK) {
      this.#endBlock();
      this.#whole.push(chunk);
      return;
    }
    if (this.#block.length - this.#blockBytes < chunk.length) {
      this.#endBlock();
      this.#block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    }
    chunk.copy(this.#block, this.#blockBytes);
    this.#blockBytes += chunk.length;
  }

  take(): Buffer[] {
    this.#endBlock();
    return this.#whole;
  }

  #endBlock(): void {
    if (this.#blockBytes === 0) return;
    this.#whole.push(this.#block.subarray(0, this.#blockBytes));
    this.#block = this.#block.subarray(this.#blockBytes);
    this.#blockBytes = 0;
  }
}

function pause(request: IncomingMessage, ms: number): void {
  request.pause();
  setTimeout(() => request.resume(), ms);
}

function notUtf8(): BusError {
  return new BusError('bad_body', 'the body is not UTF-8');
}

function endedEarly(cause?: Error): BusError {
  return new BusError('bad_body', 'the body ended early', { cause });
}

function tooLarge(maxBytes: number): BusError {
  const advice = maxBytes === MAX_PUBLISH_BYTES ? 'send fewer events at a time' : 'send less';
  const detail = `the body is larger than ${maxBytes} bytes; ${advice}`;
  return new BusError('body_too_large', detail);
}

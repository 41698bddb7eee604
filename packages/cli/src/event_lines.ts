import { setTimeout as sleep } from 'node:timers/promises';
import { TextDecoder } from 'node:util';
import { Failure } from './command.ts';

/**
 * Maximum events in a request: as many as the bus allows. With half as many, publishing costs 6 % more CPU time in all.
 */
export const MAX_LINES = 10_000;
/**
 * Size (bytes) at which the collected lines are sent as one request. The bus accepts more than twice this size, but
 * smaller requests occupy the bus for a shorter time.
 */
const FULL_REQUEST_BYTES = 2 * 1024 * 1024;
/**
 * Maximum time for which a line waits for more lines. Then the lines are sent even if they do not fill a request,
 * because a program that writes to a pipe may take hours to fill one.
 */
const MAX_WAIT_MS = 200;
/** Maximum characters of a line. The bus refuses a longer event, so the rest of such a line is not read. */
const MAX_LINE_LENGTH = 5 * 1024 * 1024;

export interface Chunk {
  lines: string[];
  /** The number of each line in the file, from 1 on, for error messages. */
  numbers: number[];
  bytes: number;
}

/**
 * Divides an input into chunks of lines. Yields a chunk when it is full, or MAX_WAIT_MS after its first line came.
 * Leaves out empty lines. Throws Failure if the input is not UTF-8 with one event on each line. Chunks that were
 * yielded before the error contain only valid lines.
 */
export async function* chunksOf(input: AsyncIterable<Buffer | string>): AsyncGenerator<Chunk> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let [rest, number] = ['', 0];
  let chunk: Chunk = { lines: [], numbers: [], bytes: 0 };
  let dueMs = Number.POSITIVE_INFINITY;
  const take = () => {
    const taken = chunk;
    chunk = { lines: [], numbers: [], bytes: 0 };
    dueMs = Number.POSITIVE_INFINITY;
    return taken;
  };
  const add = (line: string) => {
    number++;
    if (line.trim() === '') return;
    checkEvent(line, number);
    if (chunk.lines.length === 0) dueMs = performance.now() + MAX_WAIT_MS;
    chunk.lines.push(line);
    chunk.numbers.push(number);
    chunk.bytes += Buffer.byteLength(line) + 1;
  };
  for await (const piece of orPauses(input, () => dueMs)) {
    if (piece === undefined) {
      yield take();
      continue;
    }
    const lines = decode(decoder, piece).split('\n');
    // Only `piece` is searched for line breaks, and not `rest`, the beginning of an unfinished line. If `rest` were
    // searched again with each piece, the time for a line would grow with the square of its length.
    lines[0] = rest + lines[0];
    rest = lines.pop() ?? '';
    for (const line of lines) {
      add(line);
      if (chunk.lines.length < MAX_LINES && chunk.bytes < FULL_REQUEST_BYTES) continue;
      yield take();
    }
    if (rest.length > MAX_LINE_LENGTH)
      throw new Failure('body_too_large', `line ${number + 1}: it has more than the 5 MiB of a request`);
  }
  add(rest + decode(decoder));
  if (chunk.lines.length > 0) yield take();
}

/**
 * Yields the pieces of an input. If the clock reaches `dueMs()` while the next piece is awaited, yields undefined
 * before this piece.
 */
async function* orPauses<Piece>(
  input: AsyncIterable<Piece>,
  dueMs: () => number,
): AsyncGenerator<Piece | undefined> {
  const pieces = input[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = pieces.next();
      // If the input fails while the caller handles the `undefined` that is yielded below, nobody awaits `next` yet.
      // Without this `catch`, Node would then end the process because of an unhandled rejection.
      next.catch(() => {});
      const waitMs = Math.max(0, dueMs() - performance.now());
      if (waitMs < Number.POSITIVE_INFINITY && !(await settlesWithin(waitMs, next))) yield undefined;
      const { done, value } = await next;
      if (done) return;
      yield value;
    }
  } finally {
    await pieces.return?.();
  }
}

async function settlesWithin(ms: number, promise: Promise<unknown>): Promise<boolean> {
  const timer = new AbortController();
  const late = sleep(ms, false, { signal: timer.signal });
  return Promise.race([promise.then(() => true), late]).finally(() => timer.abort());
}

function decode(decoder: TextDecoder, piece?: Buffer | string): string {
  if (typeof piece === 'string') return piece;
  try {
    return decoder.decode(piece, { stream: piece !== undefined });
  } catch {
    throw new Failure('bad_body', 'the lines are not UTF-8');
  }
}

/**
 * Throws Failure unless the line is one JSON object. The bus cannot check this, because rtm joins the lines by commas:
 * the bus would accept a line with two events (`{…},{…}`), and an event that is broken into two lines. Also throws
 * Failure for a timestamp of ten digits, as the client library does. Such a timestamp is in seconds, but the bus would
 * take it for milliseconds: a date in 1970.
 */
function checkEvent(line: string, number: number): void {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new Failure('bad_body', `line ${number}: it is not one event as JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Failure('bad_body', `line ${number}: it is not one event, a JSON object`);
  const { timestamp } = value as { timestamp?: unknown };
  const time = typeof timestamp === 'object' ? 0 : Number(timestamp);
  if (time >= 1e9 && time < 1e10)
    throw new Failure(
      'bad_event',
      `line ${number}: timestamp ${timestamp} looks like seconds; give milliseconds since 1970`,
    );
}

import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { ProblemError, Routemaster } from '@routemaster/client';
import { type Call, Failure } from './command.ts';
import { number } from './tables.ts';

/** A request has so much at most: half of what the bus takes, so that it holds each for a short time. */
const MAX_LINES = 5000;
const MAX_BYTES = 2 * 1024 * 1024;
/** Time within which a request must succeed, retries included. */
const TIMEOUT_MS = 120_000;
const BAR_WIDTH = 30;
const REDRAW_MS = 100;

interface Chunk {
  lines: string[];
  /** The number in the file of each line. */
  numbers: number[];
  bytes: number;
}

/** Posts many events at once as they stand in a file, which `publishAll` would have to read and write again. */
class LinePublisher extends Routemaster {
  async post(topic: string, lines: readonly string[]): Promise<void> {
    const path = `/topics/${encodeURIComponent(topic)}`;
    const request = { method: 'POST', path, body: `[${lines.join(',')}]`, key: randomUUID() };
    await this.request(request, true, {});
  }
}

/** Publishes the events of a file, one a line, in their order. Stops at the first that is refused, and names its line. */
export async function publishLines(call: Call, file: string): Promise<void> {
  const [topic = ''] = call.args;
  const bus = new LinePublisher({ ...call.target(), timeoutMs: TIMEOUT_MS });
  const isStdin = file === '-';
  const progress = new Progress(call, isStdin ? undefined : (await stat(file)).size);
  const input = isStdin ? call.streams.stdin : createReadStream(file, { highWaterMark: 1024 * 1024 });
  let underWay: Promise<void> = Promise.resolve();
  const post = async (chunk: Chunk) => {
    await bus.post(topic, chunk.lines).catch((error: unknown) => {
      throw failureOf(error, chunk, progress.stored);
    });
    progress.add(chunk);
  };
  try {
    for await (const chunk of chunksOf(input)) {
      await underWay;
      underWay = post(chunk);
      // Awaited with the next chunk, which is read meanwhile.
      underWay.catch(() => {});
    }
    await underWay;
  } finally {
    progress.clear();
  }
  const { stored, seconds } = progress;
  const rate = Math.round(stored / seconds);
  call.print({ stored, seconds, rate }, [
    `${number(stored)} events in ${seconds.toFixed(1)} s, ${number(rate)} a second`,
  ]);
}

async function* chunksOf(input: AsyncIterable<Buffer | string>): AsyncGenerator<Chunk> {
  const decoder = new TextDecoder();
  let [rest, number] = ['', 0];
  let chunk: Chunk = { lines: [], numbers: [], bytes: 0 };
  const add = (line: string) => {
    number++;
    if (line.trim() === '') return;
    chunk.lines.push(line);
    chunk.numbers.push(number);
    chunk.bytes += Buffer.byteLength(line) + 1;
  };
  for await (const piece of input) {
    const text = rest + (typeof piece === 'string' ? piece : decoder.decode(piece, { stream: true }));
    const lines = text.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      add(line);
      if (chunk.lines.length < MAX_LINES && chunk.bytes < MAX_BYTES) continue;
      yield chunk;
      chunk = { lines: [], numbers: [], bytes: 0 };
    }
  }
  add(rest + decoder.decode());
  if (chunk.lines.length > 0) yield chunk;
}

/** Of the chunk nothing is stored if the bus refused it. */
function failureOf(error: unknown, { lines, numbers }: Chunk, stored: number): unknown {
  if (!(error instanceof ProblemError)) return error;
  const { index } = error.members;
  const place = typeof index === 'number' ? index : lines.findIndex((line) => !isJson(line));
  const where = numbers[place] === undefined ? '' : `line ${numbers[place]}: `;
  return new Failure(error.code, `${where}${error.detail} (${number(stored)} events before are stored)`);
}

function isJson(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

/** What is stored, and a bar that shows it on a terminal. */
class Progress {
  stored = 0;
  readonly #beganMs = performance.now();
  readonly #stderr: NodeJS.WriteStream | undefined;
  readonly #totalBytes: number | undefined;
  #bytes = 0;
  #drawnMs = 0;

  constructor({ streams: { stderr } }: Call, totalBytes: number | undefined) {
    this.#stderr = stderr.isTTY ? stderr : undefined;
    this.#totalBytes = totalBytes;
  }

  get seconds(): number {
    return (performance.now() - this.#beganMs) / 1000;
  }

  add({ lines, bytes }: Chunk): void {
    this.stored += lines.length;
    this.#bytes += bytes;
    const nowMs = performance.now();
    if (nowMs - this.#drawnMs < REDRAW_MS) return;
    this.#drawnMs = nowMs;
    this.#stderr?.write(`\r${this.#bar()}${number(this.stored)} events`);
  }

  clear(): void {
    this.#stderr?.write('\r\x1b[K');
  }

  #bar(): string {
    if (!this.#totalBytes) return '';
    const done = Math.round(BAR_WIDTH * Math.min(1, this.#bytes / this.#totalBytes));
    return `[${'#'.repeat(done)}${' '.repeat(BAR_WIDTH - done)}] `;
  }
}

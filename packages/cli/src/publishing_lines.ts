import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { addAbortSignal } from 'node:stream';
import { ProblemError, RoutemasterError, TimeLimitError } from '@routemaster/client';
import type { Bus } from './bus.ts';
import { type Call, Failure, sizeOfGiven } from './command.ts';
import { type Chunk, chunksOf, MAX_LINES } from './event_lines.ts';
import { sayIfRepeated } from './patience.ts';
import { Progress } from './progress.ts';
import { noteNoSubscriber } from './subscriptions.ts';
import { number } from './tables.ts';
import { mayBeDone } from './unanswered.ts';

/**
 * Factor by which the maximum number of lines in a request grows after each accepted request. A request that is too
 * large halves the maximum.
 */
const GROWTH = 1.1;
/** Time within which a request must succeed, retries included. */
const PUBLISH_TIMEOUT_MS = 120_000;

/**
 * Maximum time for which it may be unknown whether the events of a request are stored. One call before this time and
 * one after it can take PUBLISH_TIMEOUT_MS each. The sum is less than the ten minutes for which a bus with the default
 * settings remembers an idempotency key.
 */
const UNSURE_MS = 240_000;

/**
 * Posts lines of a file unchanged, many in one request. `publishAll` of the client library takes objects, so it would
 * write each line as JSON again, which costs CPU time.
 */
export class LinePublisher {
  /** Number of lines in the request under way. */
  sending = 0;
  readonly #bus: Bus;
  readonly #interruption: AbortSignal;
  readonly #sayIfRepeated: () => () => void;
  #maxLines = MAX_LINES;

  /** Calls `sayIfRepeated` before each request. After the request, calls the function that `sayIfRepeated` returned. */
  constructor(bus: Bus, interruption: AbortSignal, sayIfRepeated: () => () => void) {
    this.#bus = bus;
    this.#interruption = interruption;
    this.#sayIfRepeated = sayIfRepeated;
  }

  /**
   * Posts the lines of a chunk in their order. Calls `stored` after each accepted request. If a chunk is too large for
   * the bus, it becomes several requests. After an interruption, no further request begins. Throws Failure if the bus
   * refuses a request: then no event of that request is stored, unless the bus answered a 5xx.
   */
  async post(topic: string, { lines, numbers, bytes }: Chunk, stored: (part: Chunk) => void): Promise<void> {
    for (let from = 0; from < lines.length; ) {
      this.#interruption.throwIfAborted();
      const to = Math.min(lines.length, from + this.#maxLines);
      const share = (bytes * (to - from)) / lines.length;
      const part = { lines: lines.slice(from, to), numbers: numbers.slice(from, to), bytes: share };
      this.sending = part.lines.length;
      const stopSaying = this.#sayIfRepeated();
      try {
        await this.#publish(topic, `[${part.lines.join(',')}]`);
      } catch (error) {
        if (!(error instanceof ProblemError)) throw error;
        // After 413, the next request has half as many lines. MAX_LINES can be too many for a topic with many
        // subscribers, for delayed events, and for a router in front of the bus that limits the bytes.
        if (error.status !== 413 || to - from === 1)
          throw new Failure(error.code, refusalOf(error, part.numbers), { cause: error });
        this.#maxLines = Math.ceil((to - from) / 2);
        continue;
      } finally {
        stopSaying();
        this.sending = 0;
      }
      this.#maxLines = Math.min(MAX_LINES, Math.ceil(this.#maxLines * GROWTH));
      stored(part);
      from = to;
    }
  }

  /**
   * Makes one request. If the bus refuses it for the client's rate until the time limit, makes it again, however long
   * that takes: at 50 events a second, the bus takes the next request 200 s after one of 10,000. If the time limit came
   * during an attempt, the events may be stored, so each repeat has the same idempotency key. Throws if it is still
   * unknown after UNSURE_MS whether they are stored, because the bus may soon forget the key.
   */
  async #publish(topic: string, json: string): Promise<void> {
    const key = randomUUID();
    let unsure: { error: TimeLimitError; sinceMs: number } | undefined;
    for (;;) {
      try {
        return await this.#bus.publishText(topic, json, key);
      } catch (error) {
        if (!isForRate(error)) {
          // `error` knows only the attempts of the last call, and an earlier call may have stored the events.
          if (unsure && error instanceof TimeLimitError)
            throw new TimeLimitError(PUBLISH_TIMEOUT_MS, { mayBeDone: true, cause: error.cause });
          throw error;
        }
        const nowMs = performance.now();
        if (error.mayBeDone) unsure ??= { error, sinceMs: nowMs };
        if (unsure && (this.#interruption.aborted || nowMs - unsure.sinceMs > UNSURE_MS)) throw unsure.error;
        this.#interruption.throwIfAborted();
      }
    }
  }
}

/**
 * Publishes the events of a file, which has one event on each line, in their order. Stops when the bus refuses an event
 * or cannot be reached for long. Then throws a Failure that says how many events are stored and, if this is known,
 * which line is refused.
 */
export async function publishLines(call: Call, file: string): Promise<void> {
  const [topic = ''] = call.args;
  // The first Ctrl-C stops the reading of the file. The request under way is still finished, so that its events are
  // counted. A second Ctrl-C ends the process.
  const interruption = call.interruption();
  // `LinePublisher` tells the user of repeats, for each request.
  const bus = call.connect({ timeoutMs: PUBLISH_TIMEOUT_MS, isQuiet: true });
  bus.outlastsRates = true;
  const isStdin = file === '-';
  const progress = new Progress(call, isStdin ? undefined : await sizeOfGiven(file));
  const note = (line: string) => {
    progress.clear();
    call.note(line);
  };
  const waiting = { bus, url: call.target().url, timeoutMs: PUBLISH_TIMEOUT_MS };
  const publisher = new LinePublisher(bus, interruption, () => sayIfRepeated(waiting, note));
  const lines = isStdin ? call.streams.stdin : createReadStream(file, { highWaterMark: 1024 * 1024 });
  interruption.addEventListener('abort', () => {
    progress.clear();
    if (publisher.sending > 0)
      call.note(
        `interrupted: sending no more, but waiting for ${number(publisher.sending)} events under way; ` +
          'Ctrl-C again ends at once',
      );
  });
  const failed = new AbortController();
  const input = addAbortSignal(AbortSignal.any([interruption, failed.signal]), lines);
  let underWay: Promise<void> = Promise.resolve();
  try {
    for await (const chunk of chunksOf(input)) {
      await underWay;
      underWay = publisher.post(topic, chunk, ({ lines, bytes }) => progress.add(lines.length, bytes));
      // The request may fail while the next chunk is still being read. Then stop reading immediately: if the input is a
      // pipe, the next line may come much later.
      underWay.catch(() => failed.abort());
    }
    await underWay;
  } catch (error) {
    // The request under way began before this error. If that request fails too, its error is reported instead, because
    // its lines come first in the file.
    const reason = await underWay.then(
      () => error,
      (earlier: unknown) => earlier,
    );
    throw failureOf(reason, progress.stored);
  } finally {
    progress.clear();
  }
  const { stored, seconds } = progress;
  const rate = Math.round(stored / seconds);
  call.print({ stored, seconds, rate }, [
    `${number(stored)} events in ${seconds.toFixed(1)} s, ${number(rate)} a second`,
  ]);
  await noteNoSubscriber(call, bus, topic);
}

/** Returns true if a call reached its time limit, and its last failed attempt was refused for the client's rate. */
function isForRate(error: unknown): error is TimeLimitError {
  if (!(error instanceof TimeLimitError)) return false;
  return error.cause instanceof ProblemError && error.cause.status === 429;
}

/** Returns an error that says how many events are stored, so that the user can go on with the rest. */
function failureOf(error: unknown, stored: number): unknown {
  const before = `${number(stored)} events before are stored`;
  const more = mayBeDone(error instanceof Failure ? error.cause : error) ? ', and perhaps the next ones' : '';
  if (error instanceof Error && error.name === 'AbortError')
    return new Failure('interrupted', `not all lines were sent (${before})`);
  if (error instanceof Failure) return new Failure(error.code, `${error.message} (${before}${more})`);
  if (!(error instanceof RoutemasterError)) return error;
  return new Failure(error.code, `${error.message} (${before}${more})`, { cause: error.cause });
}

function refusalOf(problem: ProblemError, numbers: readonly number[]): string {
  // If a request is too large (413), `post` sends fewer lines, down to one. So a 413 that comes here is about one line.
  const index = problem.status === 413 ? 0 : problem.members.index;
  const line = typeof index === 'number' ? numbers[index] : undefined;
  if (line === undefined) return problem.detail;
  // The number of the event in the request is removed from the detail, because the user needs only the number of the
  // line.
  return `line ${line}: ${problem.detail.replace(/^event \d+: /, '')}`;
}

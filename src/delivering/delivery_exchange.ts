import type { Dispatcher } from 'undici';

/** What a subscriber may answer with; more is cut off. The answer of a taken batch is of no interest. */
const MOST_ANSWER_BYTES = 64 * 1024;

/** How many times it may say that it is about to answer (1xx): each costs us more to read than it to write. */
const MOST_INFORMATIONAL = 100;

/** How much of a refusal is kept for whoever looks into it, and how long it is awaited once the status is there. */
const ANSWER_KEPT_BYTES = 256;
const ANSWER_WAIT_MS = 200;

/** How long the rest of an answer is read once the status is there. Connections that drip are closed then: they pile up. */
const REST_WAIT_MS = 1000;

/** A delivery that was not taken. */
export interface Failed {
  taken: false;
  reason: string;
  /** The HTTP status, if there was an answer. */
  status?: number;
  /** How the body of the answer began. */
  answer?: string;
  retryAfterMs?: number;
  /** We gave up, and the subscriber is not to blame. */
  aborted?: boolean;
}

/** How a delivery ended. */
export type Outcome = { taken: true } | Failed;

type Headers = Record<string, string | string[] | undefined>;

/**
 * One request and its answer. The status decides, at once, or as soon as the beginning of a refusal is there: a body that
 * drips must not hold a worker. The rest is read for a second all the same, so that the connection is kept alive.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly outcome: Promise<Outcome>;
  readonly #signal: AbortSignal;
  #timer: NodeJS.Timeout;
  readonly #onAbort = () => this.#giveUp({ taken: false, reason: 'the worker is stopping', aborted: true });
  #resolve!: (outcome: Outcome) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #over = false;
  #bytes = 0;
  #informational = 0;
  #refusal: { failed: Failed; beginning: Buffer[]; timer: NodeJS.Timeout } | undefined;

  constructor(timeoutMs: number, signal: AbortSignal) {
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#signal = signal;
    this.#timer = setTimeout(
      () => this.#giveUp({ taken: false, reason: `no answer within ${timeoutMs} ms` }),
      timeoutMs,
    );
    if (signal.aborted) this.#onAbort();
    else signal.addEventListener('abort', this.#onAbort);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#over) controller.abort(new Error('given up before it began'));
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) {
      if (++this.#informational > MOST_INFORMATIONAL)
        controller.abort(new Error('it only says that it will answer'));
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => controller.abort(new Error('the answer does not end')), REST_WAIT_MS);
    if (status < 300) {
      this.#resolve({ taken: true });
      return;
    }
    const timer = setTimeout(() => this.#refuse(), ANSWER_WAIT_MS);
    this.#refusal = { failed: refused(status, headers), beginning: [], timer };
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#refusal && this.#bytes - chunk.length < ANSWER_KEPT_BYTES) {
      this.#refusal.beginning.push(Buffer.from(chunk.subarray(0, ANSWER_KEPT_BYTES)));
      if (this.#bytes >= ANSWER_KEPT_BYTES) this.#refuse();
    }
    if (this.#bytes > MOST_ANSWER_BYTES) controller.abort(new Error('the answer is too long'));
  }

  onResponseEnd(): void {
    this.#end({ taken: false, reason: 'no answer' });
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    const code = (error as NodeJS.ErrnoException).code;
    this.#end({ taken: false, reason: code ? `${code}: ${error.message}` : error.message });
  }

  #giveUp(outcome: Outcome): void {
    this.#end(outcome);
    this.#controller?.abort(new Error('given up'));
  }

  /** With as much of the answer as is there. */
  #refuse(): void {
    if (!this.#refusal) return;
    const { failed, beginning, timer } = this.#refusal;
    clearTimeout(timer);
    // As a stream, so that a character which the end cuts is left out.
    const kept = Buffer.concat(beginning).subarray(0, ANSWER_KEPT_BYTES);
    const answer = new TextDecoder().decode(kept, { stream: true });
    this.#resolve({ ...failed, answer });
  }

  /** The outcome counts if no status has come before. */
  #end(outcome: Outcome): void {
    if (this.#over) return;
    this.#over = true;
    this.#refuse();
    clearTimeout(this.#timer);
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#resolve(outcome);
  }
}

function refused(status: number, headers: Headers): Failed {
  const one = (name: string) => [headers[name]].flat()[0];
  const retryAfterMs = readRetryAfter(one('retry-after'), one('date'));
  return {
    taken: false,
    reason: `HTTP ${status}`,
    status,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/**
 * `Retry-After`: seconds, or an HTTP date, by the clock of who says so: its `Date`; where it has none, by this host's.
 * Undefined where it says nothing sensible.
 */
export function readRetryAfter(value: string | undefined, date?: string): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,10}$/.test(value)) return Number(value) * 1000;
  const untilMs = Date.parse(value);
  const saidMs = Date.parse(date ?? '');
  return Number.isNaN(untilMs)
    ? undefined
    : Math.max(0, untilMs - (Number.isNaN(saidMs) ? Date.now() : saidMs));
}

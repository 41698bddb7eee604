import type { Dispatcher } from 'undici';

/** What a subscriber may answer with; more is cut off. The answer of a taken batch is of no interest. */
const MOST_ANSWER_BYTES = 64 * 1024;

/** How a delivery ended. */
export type Outcome =
  | { taken: true }
  /** `aborted`: we gave up, and the subscriber is not to blame. */
  | { taken: false; reason: string; retryAfterMs?: number; aborted?: boolean };

type Headers = Record<string, string | string[] | undefined>;

/**
 * One request and its answer. The status decides, at once: a body that drips must not hold a worker. It is read in the
 * same time limit all the same, for the connection's sake.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly outcome: Promise<Outcome>;
  readonly #signal: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #onAbort = () => this.#giveUp({ taken: false, reason: 'the worker is stopping', aborted: true });
  #resolve!: (outcome: Outcome) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #over = false;
  #bytes = 0;

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

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) return;
    this.#resolve(status < 300 ? { taken: true } : refused(status, headers['retry-after']));
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
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

  /** The outcome counts if no status has come before. */
  #end(outcome: Outcome): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#timer);
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#resolve(outcome);
  }
}

function refused(status: number, header: string | string[] | undefined): Outcome {
  const retryAfterMs = readRetryAfter(Array.isArray(header) ? header[0] : header);
  return {
    taken: false,
    reason: `HTTP ${status}`,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** `Retry-After`: seconds, or an HTTP date (by this host's clock). Undefined where it says nothing sensible. */
export function readRetryAfter(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,10}$/.test(value)) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}

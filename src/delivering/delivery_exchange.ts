import type { Dispatcher } from 'undici';
import { clock } from '../clock.ts';

/** A longer answer ends the connection. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** How many informational responses (1xx) are read: each costs us more to read than the subscriber to write. */
const MAX_INFORMATIONAL = 100;

/** How much of a refusal's body is kept for the dead letter's history, and how long it is awaited after the status. */
const ANSWER_KEPT_BYTES = 256;
const ANSWER_WAIT_MS = 200;

/** How long the rest of an answer is read after the status. Slower connections are closed then, as they would pile up. */
const REST_WAIT_MS = 1000;

/** Why a delivery was not taken. */
export interface FailedDelivery {
  taken: false;
  reason: string;
  /** The HTTP status, if there was an answer. */
  status?: number;
  /** The beginning of the answer's body. */
  answer?: string;
  retryAfterMs?: number | undefined;
  /** The delivery was cut off by this process; the subscriber is not to blame. */
  aborted?: boolean;
}

export type DeliveryOutcome = { taken: true } | FailedDelivery;

type Headers = Record<string, string | string[] | undefined>;

/**
 * One request and its answer. A 2xx status decides the outcome at once; any other status decides it when the beginning of the
 * body is there, or soon after: a slow body must not hold a worker. The rest of the body is still read for a second, so that
 * the connection can be kept alive.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly outcome: Promise<DeliveryOutcome>;
  readonly #signal: AbortSignal;
  #timer: NodeJS.Timeout;
  readonly #onAbort = () => this.#cancel({ taken: false, reason: 'the worker is stopping', aborted: true });
  #resolve!: (outcome: DeliveryOutcome) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #over = false;
  #bytes = 0;
  #informational = 0;
  #refusal: { failed: FailedDelivery; beginning: Buffer[]; timer: NodeJS.Timeout } | undefined;

  constructor(timeoutMs: number, signal: AbortSignal) {
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#signal = signal;
    this.#timer = setTimeout(
      () => this.#cancel({ taken: false, reason: `no answer within ${timeoutMs} ms` }),
      timeoutMs,
    );
    if (signal.aborted) this.#onAbort();
    else signal.addEventListener('abort', this.#onAbort);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#over) controller.abort(new Error('cancelled before the request was sent'));
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) {
      if (++this.#informational > MAX_INFORMATIONAL)
        controller.abort(new Error('too many informational responses (1xx)'));
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => controller.abort(new Error('the answer takes too long')), REST_WAIT_MS);
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
    if (this.#bytes > MAX_ANSWER_BYTES) controller.abort(new Error('the answer is too long'));
  }

  onResponseEnd(): void {
    this.#end({ taken: false, reason: 'no answer' });
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    const code = (error as NodeJS.ErrnoException).code;
    this.#end({ taken: false, reason: code ? `${code}: ${error.message}` : error.message });
  }

  #cancel(outcome: DeliveryOutcome): void {
    this.#end(outcome);
    this.#controller?.abort(new Error('cancelled'));
  }

  /** Resolves with what has arrived of the body. */
  #refuse(): void {
    if (!this.#refusal) return;
    const { failed, beginning, timer } = this.#refusal;
    clearTimeout(timer);
    // `stream` leaves out a character that the limit cuts in two.
    const kept = Buffer.concat(beginning).subarray(0, ANSWER_KEPT_BYTES);
    const answer = new TextDecoder().decode(kept, { stream: true });
    this.#resolve({ ...failed, answer });
  }

  /** The outcome counts only if no status came before: a promise resolves once. */
  #end(outcome: DeliveryOutcome): void {
    if (this.#over) return;
    this.#over = true;
    this.#refuse();
    clearTimeout(this.#timer);
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#resolve(outcome);
  }
}

function refused(status: number, headers: Headers): FailedDelivery {
  const one = (name: string) => [headers[name]].flat()[0];
  const retryAfterMs = readRetryAfter(one('retry-after'), one('date'));
  return { taken: false, reason: `HTTP ${status}`, status, retryAfterMs };
}

/**
 * The wait that `Retry-After` asks for, in ms; undefined if it is unreadable. It is a number of seconds or an HTTP date; a date
 * is compared with the answer's own `Date`, so that clocks need not agree, or with this host's clock if there is none.
 */
export function readRetryAfter(value: string | undefined, date?: string): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,10}$/.test(value)) return Number(value) * 1000;
  const untilMs = Date.parse(value);
  if (Number.isNaN(untilMs)) return undefined;
  const sentMs = Date.parse(date ?? '');
  return Math.max(0, untilMs - (Number.isNaN(sentMs) ? clock.wallMs() : sentMs));
}

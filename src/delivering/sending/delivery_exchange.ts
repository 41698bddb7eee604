import type { Dispatcher } from 'undici';
import { clock } from '../../clock.ts';
import { messageOf } from '../../errors.ts';
import { keptConnectionClosed } from './delivery_connections.ts';
import type { UnfinishedAnswer, UnfinishedAnswers } from './unfinished_answers.ts';

/** Maximum length of an answer. If an answer is longer, its connection is closed. */
const MAX_ANSWER_BYTES = 64 * 1024;

/**
 * Maximum informational responses (1xx) before an answer. Without a limit, a callback could keep the bus busy: reading
 * such a response costs the bus more than sending it costs the callback.
 */
const MAX_INFORMATIONAL = 100;

/**
 * The first ANSWER_KEPT_BYTES of a refusal (an answer with a status of 300 or more) are kept. The delivery waits for
 * them up to ANSWER_WAIT_MS after the status.
 */
const ANSWER_KEPT_BYTES = 256;
const ANSWER_WAIT_MS = 200;

/** Maximum time from the status of an answer to its end. After this time the connection is closed. */
const REST_WAIT_MS = 1000;

export interface FailedDelivery {
  accepted: false;
  reason: string;
  status?: number;
  answer?: string;
  retryAfterMs?: number | undefined;
  /**
   * True if the worker ended the delivery, not the callback or the time limit. An aborted delivery does not count as a
   * failure of the subscriber.
   */
  aborted?: boolean;
}

export type DeliveryOutcome = { accepted: true; status: number } | FailedDelivery;

type Headers = Record<string, string | string[] | undefined>;

/**
 * One request to a callback, and its answer. A 2xx status decides the outcome at once. After any other status, the
 * delivery waits up to ANSWER_WAIT_MS for the beginning of the answer's body, and includes it in the outcome. The rest
 * of the body is read for up to a second, so that the connection can be used again. If a kept connection is closed
 * before the answer, the request is sent once more, within the same time limit.
 */
export class Exchange implements Dispatcher.DispatchHandler, UnfinishedAnswer {
  readonly subscriber: string;
  readonly #unfinished: UnfinishedAnswers;
  readonly #signal: AbortSignal;
  #timer: NodeJS.Timeout;
  readonly #onAbort = () =>
    this.#cancel({ accepted: false, reason: 'the worker is stopping, or has lost its lease', aborted: true });
  readonly #outcome = Promise.withResolvers<DeliveryOutcome>();
  /**
   * Sends the request once more, over a new connection. Undefined after the first failure, so that the request is sent
   * twice at most.
   */
  #sendAgain: (() => void) | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #over = false;
  #bytes = 0;
  #informational = 0;
  #refusal: { failed: FailedDelivery; beginning: Buffer[]; timer: NodeJS.Timeout } | undefined;

  constructor(
    subscriber: string,
    timeoutMs: number,
    signal: AbortSignal,
    unfinished: UnfinishedAnswers,
    sendAgain: () => void,
  ) {
    this.subscriber = subscriber;
    this.#unfinished = unfinished;
    this.#signal = signal;
    this.#sendAgain = sendAgain;
    const late: FailedDelivery = { accepted: false, reason: `no answer within ${timeoutMs} ms` };
    this.#timer = setTimeout(() => this.#cancel(late), timeoutMs);
    if (signal.aborted) this.#onAbort();
    else signal.addEventListener('abort', this.#onAbort);
  }

  get outcome(): Promise<DeliveryOutcome> {
    return this.#outcome.promise;
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
    this.#timer = setTimeout(() => this.cut(), REST_WAIT_MS);
    this.#unfinished.begin(this);
    if (status < 300) {
      this.#outcome.resolve({ accepted: true, status });
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
    this.#end({ accepted: false, reason: 'no answer' });
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    const sendAgain = this.#sendAgain;
    this.#sendAgain = undefined;
    if (sendAgain && !this.#over && keptConnectionClosed(error)) {
      sendAgain();
      return;
    }
    const code = (error as NodeJS.ErrnoException).code;
    const message = messageOf(error);
    this.#end({ accepted: false, reason: code ? `${code}: ${message}` : message });
  }

  cut(): void {
    this.#controller?.abort(new Error('the answer takes too long'));
  }

  #cancel(outcome: DeliveryOutcome): void {
    this.#end(outcome);
    this.#controller?.abort(new Error('cancelled'));
  }

  /**
   * If a refusal (a status of 300 or more) has arrived, resolves the outcome with this refusal, and with as much of its
   * body as has arrived.
   */
  #refuse(): void {
    if (!this.#refusal) return;
    const { failed, beginning, timer } = this.#refusal;
    clearTimeout(timer);
    // If ANSWER_KEPT_BYTES cuts the last character in two, `stream: true` makes the decoder leave it out.
    const kept = Buffer.concat(beginning).subarray(0, ANSWER_KEPT_BYTES);
    const answer = new TextDecoder().decode(kept, { stream: true });
    this.#outcome.resolve({ ...failed, answer });
  }

  /**
   * Ends the exchange; later calls do nothing. `outcome` counts only if no outcome was decided before, and no refusal
   * (a status of 300 or more) has begun to arrive.
   */
  #end(outcome: DeliveryOutcome): void {
    if (this.#over) return;
    this.#over = true;
    this.#refuse();
    this.#unfinished.end(this);
    clearTimeout(this.#timer);
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#outcome.resolve(outcome);
  }
}

function refused(status: number, headers: Headers): FailedDelivery {
  // undici does not remove the white space after the value of a header.
  const one = (name: string) => [headers[name]].flat()[0]?.trim();
  const retryAfterMs = readRetryAfter(one('retry-after'), one('date'));
  return { accepted: false, reason: `HTTP ${status}`, status, retryAfterMs };
}

/**
 * Returns the wait (ms) that a header `Retry-After` asks for, or undefined if it is unreadable. The header has seconds
 * or an HTTP date. A date is compared with the `Date` of the same answer, because the clocks of the hosts may differ.
 */
export function readRetryAfter(value: string | undefined, date?: string): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,10}$/.test(value)) return Number(value) * 1000;
  const untilMs = Date.parse(value);
  if (Number.isNaN(untilMs)) return undefined;
  const sentMs = Date.parse(date ?? '');
  return Math.max(0, untilMs - (Number.isNaN(sentMs) ? clock.wallMs() : sentMs));
}

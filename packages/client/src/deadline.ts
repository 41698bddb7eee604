import { TimeLimitError } from './problem.ts';

/** Options that every call takes. */
export interface CallOptions {
  /**
   * If this signal is aborted, the call rejects with the signal's reason. A request that has already been sent may
   * still take effect.
   */
  signal?: AbortSignal | undefined;
  /**
   * Time within which the call must succeed, retries and waits included. The default is the time limit of the
   * `Routemaster` object.
   */
  timeoutMs?: number | undefined;
}

/**
 * Maximum time limit of a call: nine minutes. By default the bus forgets an idempotency key after ten minutes. If a
 * publish were repeated after that, its events would be stored twice.
 */
export const MAX_TIMEOUT_MS = 540_000;

/**
 * What is known about a call that ends because of its time limit or its signal:
 * - `mayBeDone`: true if the bus may have done what the call asks for, such as storing an event.
 * - `lastFailure`: the error of the last failed attempt, if there is one. For an event that still waits in the queue of
 *   its topic, this is the last error of the request that is running for the topic.
 */
export interface Progress {
  readonly mayBeDone: boolean;
  readonly lastFailure: Error | undefined;
}

/** Ends a call. `errorFor` gets the Progress of the call, and returns the error with which the call ends. */
type End = (errorFor: (progress: Progress) => unknown) => void;

/**
 * The running calls with the same signal. They share one listener. If each call added its own, Node 20 would warn of
 * signals with more than ten listeners, and adding and removing n listeners would take time in proportion to n².
 */
class CallsOfSignal {
  static readonly #known = new WeakMap<AbortSignal, CallsOfSignal>();
  readonly #signal: AbortSignal;
  readonly #calls = new Set<Deadline>();

  static of(signal: AbortSignal): CallsOfSignal {
    const known = CallsOfSignal.#known.get(signal) ?? new CallsOfSignal(signal);
    CallsOfSignal.#known.set(signal, known);
    return known;
  }

  private constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(call: Deadline): void {
    if (this.#calls.size === 0) this.#signal.addEventListener('abort', this.#abort);
    this.#calls.add(call);
  }

  /**
   * Removes the listener with the last call. Node keeps a signal of `AbortSignal.any` in memory while it has a listener
   * and is not aborted, so a listener that stayed would cost 1.3 KB for each call with a signal of its own.
   */
  delete(call: Deadline): void {
    if (!this.#calls.delete(call) || this.#calls.size > 0) return;
    this.#signal.removeEventListener('abort', this.#abort);
  }

  readonly #abort = () => {
    for (const call of this.#calls) call.abort(this.#signal.reason);
  };
}

/** Ends a call once: at its time limit, or when the signal of its caller is aborted. After `clear`, does nothing. */
export class Deadline {
  readonly #end: End;
  readonly #timer: NodeJS.Timeout;
  readonly #ofSignal: CallsOfSignal | undefined;

  /**
   * Throws TypeError if `signal` is not an AbortSignal, and RangeError if the time limit is not allowed. If the signal
   * is already aborted, throws its reason.
   */
  constructor(timeoutMs: number, signal: AbortSignal | undefined, end: End) {
    refuseWrongTimeLimit(timeoutMs);
    if (signal && typeof signal.throwIfAborted !== 'function')
      throw new TypeError('signal must be an AbortSignal, such as that of an AbortController');
    signal?.throwIfAborted();
    this.#end = end;
    this.#timer = setTimeout(() => {
      this.clear();
      end(({ mayBeDone, lastFailure: cause }) => new TimeLimitError(timeoutMs, { mayBeDone, cause }));
    }, timeoutMs);
    this.#ofSignal = signal && CallsOfSignal.of(signal);
    this.#ofSignal?.add(this);
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#ofSignal?.delete(this);
  }

  abort(reason: unknown): void {
    this.clear();
    this.#end(() => reason);
  }
}

/** Throws RangeError for a time limit that is not allowed. */
export function refuseWrongTimeLimit(timeoutMs: number): void {
  if (!(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS))
    throw new RangeError(`timeoutMs must be more than 0 and at most ${MAX_TIMEOUT_MS}, not ${timeoutMs}`);
}

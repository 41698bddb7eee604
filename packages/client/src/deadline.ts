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
 * The deadlines of the running calls, by signal. This file adds only one listener to a signal, for all calls with this
 * signal. If each call added its own, Node 20 would warn of signals with more than ten listeners, and adding and
 * removing n listeners would take time in proportion to n².
 */
const CALLS = new WeakMap<AbortSignal, Set<Deadline>>();

/** Ends a call once: at its time limit, or when the signal of its caller is aborted. After `clear`, does nothing. */
export class Deadline {
  readonly #end: End;
  readonly #timer: NodeJS.Timeout;
  readonly #ofSignal: Set<Deadline> | undefined;

  /** Throws the reason of a signal that is already aborted, and RangeError for a time limit that is not allowed. */
  constructor(timeoutMs: number, signal: AbortSignal | undefined, end: End) {
    refuseWrongTimeLimit(timeoutMs);
    signal?.throwIfAborted();
    this.#end = end;
    this.#timer = setTimeout(() => {
      this.clear();
      end(({ mayBeDone, lastFailure: cause }) => new TimeLimitError(timeoutMs, { mayBeDone, cause }));
    }, timeoutMs);
    this.#ofSignal = signal && callsOf(signal);
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

function callsOf(signal: AbortSignal): Set<Deadline> {
  const known = CALLS.get(signal);
  if (known) return known;
  const calls = new Set<Deadline>();
  CALLS.set(signal, calls);
  const abort = () => {
    for (const call of calls) call.abort(signal.reason);
  };
  signal.addEventListener('abort', abort, { once: true });
  return calls;
}

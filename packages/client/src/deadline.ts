/** Options that every call takes. */
export interface CallOptions {
  /**
   * If it is aborted, the call rejects with the signal's reason. A request that was already sent may still be done by
   * the bus.
   */
  signal?: AbortSignal | undefined;
  /**
   * Time within which the call must succeed, including retries and pauses. By default it is the client's `timeoutMs`.
   */
  timeoutMs?: number | undefined;
}

/**
 * Maximum time limit: nine minutes. The bus remembers an idempotency key for ten minutes. Events that are repeated
 * later would be stored twice.
 */
const MAX_TIMEOUT_MS = 540_000;

/**
 * How a call is ended by its deadline. One of these two methods is called, once, unless the deadline is cleared
 * before.
 */
interface Ending {
  late(timeoutMs: number): void;
  aborted(reason: unknown): void;
}

/**
 * The deadlines of running calls, by signal. A signal has a single listener for all of them. With a listener for each
 * call, adding them would take time that grows with the square of their number, and Node 20 warns of more than ten.
 */
const CALLS = new WeakMap<AbortSignal, Set<Deadline>>();

/** Ends a call at its time limit, or when the signal of its caller is aborted. */
export class Deadline {
  readonly #ending: Ending;
  readonly #timer: NodeJS.Timeout;
  readonly #ofSignal: Set<Deadline> | undefined;

  /**
   * Throws the reason of a signal that is already aborted. Throws RangeError for a time limit that is not allowed.
   */
  constructor(timeoutMs: number, signal: AbortSignal | undefined, ending: Ending) {
    if (!(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS))
      throw new RangeError(`timeoutMs must be more than 0 and at most ${MAX_TIMEOUT_MS}, not ${timeoutMs}`);
    signal?.throwIfAborted();
    this.#ending = ending;
    this.#timer = setTimeout(endLate, timeoutMs, this, timeoutMs);
    this.#ofSignal = signal && callsOf(signal);
    this.#ofSignal?.add(this);
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#ofSignal?.delete(this);
  }

  late(timeoutMs: number): void {
    this.clear();
    this.#ending.late(timeoutMs);
  }

  abort(reason: unknown): void {
    this.clear();
    this.#ending.aborted(reason);
  }
}

/**
 * All timers call this one function. A closure for each would take memory, and tens of thousands of calls may be
 * running.
 */
function endLate(deadline: Deadline, timeoutMs: number): void {
  deadline.late(timeoutMs);
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

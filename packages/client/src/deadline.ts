/** Options that every call takes. */
export interface CallOptions {
  /**
   * If this signal is aborted, the call rejects with its reason. The bus may still do a request that was already sent.
   */
  signal?: AbortSignal | undefined;
  /**
   * Time within which the call must succeed, retries and waits included. The default is the time limit of the
   * `Routemaster` object.
   */
  timeoutMs?: number | undefined;
}

/**
 * Maximum time limit of a call: nine minutes. The bus remembers an idempotency key for ten minutes. If the events of a
 * request were sent again after that, they would be stored twice.
 */
export const MAX_TIMEOUT_MS = 540_000;

/**
 * The functions by which a deadline ends a call: `late` at the time limit, or `aborted` when the signal is aborted. A
 * deadline calls only one of them, and only once. After `clear`, it calls none.
 */
interface Ending {
  late(timeoutMs: number): void;
  aborted(reason: unknown): void;
}

/**
 * For each signal, the deadlines of the running calls that it can abort. One listener serves all of them. With one for
 * each call, adding listeners would take quadratic time, and Node 20 would warn of more than ten.
 */
const CALLS = new WeakMap<AbortSignal, Set<Deadline>>();

/** Ends a call at its time limit, or when the signal of its caller is aborted. */
export class Deadline {
  readonly #ending: Ending;
  readonly #timer: NodeJS.Timeout;
  readonly #ofSignal: Set<Deadline> | undefined;

  /** Throws the reason of a signal that is already aborted, and RangeError for a time limit that is not allowed. */
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

/** All timers call this one function. Closures for tens of thousands of calls would take memory. */
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

/** Options that every call takes. */
export interface CallOptions {
  /** When aborted, the call rejects with the signal's reason. The bus may still do a call that was sent. */
  signal?: AbortSignal | undefined;
  /** Time within which the call must succeed, retries and waiting included; unless set, the client's `timeoutMs`. */
  timeoutMs?: number | undefined;
}

/** Nine minutes. The bus remembers an idempotency key for ten: events repeated after that would be stored twice. */
const MAX_TIMEOUT_MS = 540_000;

/** The call that a deadline ends. One of the two methods is called, once, unless the deadline is cleared before. */
interface Ending {
  late(timeoutMs: number): void;
  aborted(reason: unknown): void;
}

/**
 * The deadlines of calls under way, by signal; a signal gets one listener for all of them. A listener for each call
 * would take time that grows with the square of their number, and Node 20 warns of more than ten.
 */
const CALLS = new WeakMap<AbortSignal, Set<Deadline>>();

/** Ends a call at its time limit, or when its caller's signal is aborted. */
export class Deadline {
  readonly #ending: Ending;
  readonly #timer: NodeJS.Timeout;
  readonly #ofSignal: Set<Deadline> | undefined;

  /** Throws the reason of an aborted signal, and RangeError for a time limit that is not allowed. */
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

/** One function for all timers saves a closure for each call: tens of thousands may be under way. */
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

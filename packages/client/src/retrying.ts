import { type Answer, problemOf } from './answer.ts';
import { ConnectionError, ProblemError } from './problem.ts';

export type Failure = ProblemError | ConnectionError;

const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5000;
/** Lengthens the wait of a Retry-After by up to a fifth, so that clients told the same time do not return together. */
const RETRY_AFTER_JITTER = 0.2;

/** Maximum pause before an attempt. No call may last so long, and a timer of more than 24 days would fire at once. */
const MAX_DELAY_MS = 3_600_000;

const TRANSIENT = new Set([408, 429, 502, 503, 504]);
/** With these codes the bus says that it has done nothing. */
const NOTHING_DONE = new Set(['overloaded', 'storage_full', 'request_timeout']);

/** Makes the attempts at one request, and remembers how they ended. */
export class Attempts {
  lastFailure: Failure | undefined;
  /** True if the bus may have done the request in an attempt that failed. */
  hasUnknownEnd = false;
  #isUnderWay = false;

  /** True if the bus may have done the request, or may still be doing it. */
  get mayBeDone(): boolean {
    return this.#isUnderWay || this.hasUnknownEnd;
  }

  /**
   * Tries until the answer is 2xx. Throws a failure if another attempt cannot help, or could do a request twice that is
   * not `isRepeatable`. Throws the reason of the signal when it is aborted during a pause.
   */
  async make({ send, signal, isRepeatable }: Trying): Promise<Answer> {
    for (let failures = 0; ; failures++) {
      this.#isUnderWay = true;
      const outcome = await attempt(send);
      this.#isUnderWay = false;
      if (!(outcome instanceof Error)) return outcome;
      this.lastFailure = outcome;
      this.hasUnknownEnd ||= mayBeDone(outcome);
      if (!isTransient(outcome) || (this.hasUnknownEnd && !isRepeatable)) throw outcome;
      await pause(delayAfter(outcome, failures), signal);
    }
  }
}

interface Trying {
  send: () => Promise<Answer>;
  signal: AbortSignal;
  isRepeatable: boolean;
}

async function attempt(send: () => Promise<Answer>): Promise<Answer | Failure> {
  try {
    const answer = await send();
    return answer.status >= 200 && answer.status < 300 ? answer : problemOf(answer);
  } catch (error) {
    if (error instanceof ConnectionError) return error;
    throw error;
  }
}

function isTransient(failure: Failure): boolean {
  if (failure instanceof ConnectionError) return failure.isTransient;
  // `too_many_failures` means wrong credentials, which stay wrong however often they are sent.
  return TRANSIENT.has(failure.status) && failure.code !== 'too_many_failures';
}

/** False if the bus has certainly done nothing. */
function mayBeDone(failure: Failure): boolean {
  if (failure instanceof ConnectionError) return failure.mayBeDone;
  return failure.status >= 500 && !NOTHING_DONE.has(failure.code);
}

function delayAfter(failure: Failure, failures: number): number {
  const backoffMs = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** failures);
  const askedMs = failure instanceof ProblemError ? (failure.retryAfterMs ?? 0) : 0;
  const ms = Math.max(
    backoffMs * (1 - Math.random() / 2),
    askedMs * (1 + RETRY_AFTER_JITTER * Math.random()),
  );
  return Math.min(ms, MAX_DELAY_MS);
}

/** Throws the reason of the signal when it is aborted. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal.addEventListener('abort', wake);
    if (signal.aborted) wake();
  });
  signal.throwIfAborted();
}

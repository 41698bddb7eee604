import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, isDone, problemOf } from './answer.ts';
import { ConnectionError, ProblemError } from './problem.ts';
import type { Request } from './transport.ts';

type Failure = ProblemError | ConnectionError;

const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5000;
/** A wait for Retry-After is lengthened at random by up to this fraction, so that callers repeat at different times. */
const RETRY_AFTER_JITTER = 0.2;

/**
 * Maximum wait before an attempt, even if `Retry-After` asks for a longer one. In Node, a timer of more than 24 days
 * would end immediately.
 */
const MAX_DELAY_MS = 3_600_000;

const TRANSIENT = new Set([408, 429, 502, 503, 504]);
/** Codes of errors after which any request may be repeated, because the bus has done nothing. */
const NOTHING_DONE = new Set(['overloaded', 'storage_full', 'request_timeout']);

/** Repeats a request until an attempt succeeds, and remembers the last failure. */
export class Attempts {
  lastFailure: Failure | undefined;
  /** True if an attempt failed in a way that does not show whether the bus has done the request. */
  hasUnknownEnd = false;
  #isUnderWay = false;

  /** True if the bus may have done the request, or is perhaps still doing it. */
  get mayBeDone(): boolean {
    return this.#isUnderWay || this.hasUnknownEnd;
  }

  /**
   * Calls `send` until the bus has done `request`, and returns the answer. Throws the last failure if another attempt
   * cannot help. Also throws it if the bus may have done `request` already and `isRepeatable` is false, because another
   * attempt could do it twice. Throws the reason of an aborted `signal`.
   */
  async make({ send, request, signal, isRepeatable, rest = sleepFor }: Trying): Promise<Answer> {
    for (let failures = 0; ; failures++) {
      this.#isUnderWay = true;
      const outcome = await attempt(send, request);
      this.#isUnderWay = false;
      if (!(outcome instanceof Error)) return outcome;
      this.lastFailure = outcome;
      this.hasUnknownEnd ||= mayBeDone(outcome);
      if (!isTransient(outcome) || (this.hasUnknownEnd && !isRepeatable)) throw outcome;
      const wait = isOfAll(outcome) ? sleepFor : rest;
      await wait(delayAfter(outcome, failures), signal);
    }
  }
}

interface Trying {
  send: () => Promise<Answer>;
  request: Request;
  signal: AbortSignal;
  isRepeatable: boolean;
  /**
   * Waits before the next attempt. After a failure that any other request would have too, `sleepFor` is used instead.
   */
  rest?: typeof sleepFor;
}

/** Waits for `ms`. Throws the reason of `signal` as soon as it is aborted. */
export async function sleepFor(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}

async function attempt(send: () => Promise<Answer>, request: Request): Promise<Answer | Failure> {
  try {
    const answer = await send();
    return isDone(answer, request) ? answer : problemOf(answer, request.path);
  } catch (error) {
    if (error instanceof ConnectionError) return error;
    throw error;
  }
}

function isTransient(failure: Failure): boolean {
  if (failure instanceof ConnectionError) return failure.isTransient;
  // The bus answers `too_many_failures` (429) after many requests with wrong credentials. Another attempt would have
  // the same wrong credentials.
  return TRANSIENT.has(failure.status) && failure.code !== 'too_many_failures';
}

/**
 * Returns true if the bus would refuse any other request too, because the client is over its rate, or the bus has too
 * much to do.
 */
function isOfAll(failure: Failure): boolean {
  return failure instanceof ProblemError && (failure.status === 429 || failure.code === 'overloaded');
}

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

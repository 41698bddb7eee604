import type { IncomingMessage } from 'node:http';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import { type Proxies, sourceOf } from '../proxies.ts';
import type { FailedLogins } from './failed_logins.ts';
import type { FailureReason } from './verdict.ts';

/** More failures than this from one address within a minute are answered 429. A misconfigured service makes as many. */
export const MAX_FAILURES = 100;

/** Where the figures go. */
export interface FailureFigures {
  authenticationFailed(reason: FailureReason): void;
  authenticationSlowed(): void;
}

export interface CountedFailure {
  address: string;
  /** The error to answer, where the address has failed too often. */
  refusal: BusError | undefined;
  /** Whether to log the refusal: once a minute, for whichever address it is, so that an attacker does not fill the log. */
  isReported: boolean;
}

/**
 * Limits failed logins by source address. It is asked only when credentials proved wrong: right ones are let in whatever others
 * at their address do.
 */
export class LoginLimiter {
  readonly #failures: FailedLogins;
  readonly #proxies: Proxies;
  readonly #figures: FailureFigures;
  #reportAgainAtMs = 0;

  /** `failures` must count up to MAX_FAILURES at least. */
  constructor(failures: FailedLogins, proxies: Proxies, figures: FailureFigures) {
    this.#failures = failures;
    this.#proxies = proxies;
    this.#figures = figures;
  }

  /** Counts a failure. Never throws. */
  async failed(request: IncomingMessage, reason: FailureReason): Promise<CountedFailure> {
    const address = this.#proxies.addressOf(request);
    this.#figures.authenticationFailed(reason);
    if ((await this.#failures.count(sourceOf(address))) <= MAX_FAILURES)
      return { address, refusal: undefined, isReported: false };
    this.#figures.authenticationSlowed();
    const leftMs = this.#failures.leftMs();
    const isReported = clock.monotonicMs() >= this.#reportAgainAtMs;
    if (isReported) this.#reportAgainAtMs = clock.monotonicMs() + leftMs;
    return { address, refusal: tooManyFailures(leftMs), isReported };
  }
}

function tooManyFailures(leftMs: number): BusError {
  const detail =
    'too many requests with wrong credentials came from your address within a minute; right ones are let in at any time';
  return new BusError('too_many_failures', detail, {
    headers: { 'Retry-After': String(Math.ceil(leftMs / 1000)) },
  });
}

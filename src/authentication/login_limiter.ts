import type { IncomingMessage } from 'node:http';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import { type Proxies, sourceOf } from '../routing/proxies.ts';
import type { FailedLogins } from './failed_logins.ts';
import type { FailureReason } from './verdict.ts';

/** Maximum failures per address and minute. It is high because one service with a wrong secret causes many failures. */
export const MAX_FAILURES = 100;

interface FailureFigures {
  authenticationFailed(reason: FailureReason): void;
  authenticationSlowed(): void;
}

interface CountedFailure {
  address: string;
  refusal: BusError | undefined;
  /**
   * True if the refusal should be logged: at most once a minute in this process, so that attackers cannot fill the log.
   */
  isReported: boolean;
}

/** Limits failed authentications by address. Correct credentials are accepted from any address. */
export class LoginLimiter {
  readonly #failures: FailedLogins;
  readonly #proxies: Proxies;
  readonly #figures: FailureFigures;
  #reportAgainAtMs = 0;

  constructor(failures: FailedLogins, proxies: Proxies, figures: FailureFigures) {
    this.#failures = failures;
    this.#proxies = proxies;
    this.#figures = figures;
  }

  /** Counts a failed login. Never throws. */
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

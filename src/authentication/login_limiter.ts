import type { IncomingMessage } from 'node:http';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import { type Proxies, sourceOf } from '../http/proxies.ts';
import type { FailureReason } from './caller.ts';
import type { FailedLogins } from './failed_logins.ts';

/** How many failures a minute an address may have before they are answered 429: a misconfigured service comes to that. */
export const MOST_FAILURES = 100;

/** Where the figures go. */
export interface FailureFigures {
  authenticationFailed(reason: FailureReason): void;
  authenticationSlowed(): void;
}

export interface Failure {
  address: string;
  /** What to answer instead, where the address has failed too often. */
  slowed: BusError | undefined;
  /** Whether to tell of it: once a minute, of whichever address it is. */
  tell: boolean;
}

/**
 * What becomes of failures, by source address. It is asked only when credentials were wrong: right ones are let in
 * whatever others at their address do.
 */
export class Slowing {
  readonly #failures: FailedLogins;
  readonly #proxies: Proxies;
  readonly #figures: FailureFigures;
  #tellAgainAtMs = 0;

  /** `failures` are to be counted up to MOST_FAILURES at least. */
  constructor(failures: FailedLogins, proxies: Proxies, figures: FailureFigures) {
    this.#failures = failures;
    this.#proxies = proxies;
    this.#figures = figures;
  }

  /** Counts a failure. Never throws. */
  async failed(request: IncomingMessage, reason: FailureReason): Promise<Failure> {
    const address = this.#proxies.addressOf(request);
    this.#figures.authenticationFailed(reason);
    if ((await this.#failures.count(sourceOf(address))) <= MOST_FAILURES)
      return { address, slowed: undefined, tell: true };
    this.#figures.authenticationSlowed();
    const leftMs = this.#failures.leftMs();
    const tell = clock.monotonicMs() >= this.#tellAgainAtMs;
    if (tell) this.#tellAgainAtMs = clock.monotonicMs() + leftMs;
    return { address, slowed: tooManyFailures(leftMs), tell };
  }
}

function tooManyFailures(leftMs: number): BusError {
  const detail =
    'too many requests with wrong credentials came from your address within a minute; right ones are let in at any time';
  return new BusError('too_many_failures', detail, {
    headers: { 'Retry-After': String(Math.ceil(leftMs / 1000)) },
  });
}

import { sleep } from './clock.ts';

const FIRST_WAIT_MS = 50;
const MAX_WAIT_MS = 2000;

/**
 * Returns the time to wait after failed attempts, with jitter. This time doubles with each failure, up to `maxMs`.
 */
export function backoffMs(failures: number, maxMs: number): number {
  return Math.min(FIRST_WAIT_MS * 2 ** Math.min(failures, 20), maxMs) * (0.5 + Math.random() / 2);
}

/** Waits between failing attempts. Each wait is twice as long as the one before, with jitter, up to two seconds. */
export class Backoff {
  #failures = 0;

  /** Waits before the next attempt. Resolves early when `signal` is aborted; never rejects. */
  async wait(signal?: AbortSignal): Promise<void> {
    await sleep(backoffMs(this.#failures++, MAX_WAIT_MS), signal);
  }

  /** Makes the next wait short again. Call it after a success. */
  reset(): void {
    this.#failures = 0;
  }
}

import { sleep } from './clock.ts';

const FIRST_WAIT_MS = 50;
const MAX_WAIT_MS = 2000;

/** Waits between failing attempts. Each wait is twice as long as the last, with jitter, up to two seconds. */
export class Backoff {
  #failures = 0;

  /** Waits before the next attempt. Resolves early when `signal` is aborted; never rejects. */
  async wait(signal?: AbortSignal): Promise<void> {
    const fullMs = Math.min(FIRST_WAIT_MS * 2 ** Math.min(this.#failures, 20), MAX_WAIT_MS);
    this.#failures++;
    await sleep(fullMs * (0.5 + Math.random() / 2), signal);
  }

  /** Makes the next wait short again. Call it after a success. */
  reset(): void {
    this.#failures = 0;
  }
}

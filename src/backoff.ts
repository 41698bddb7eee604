import { pause } from './clock.ts';

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 2000;

/** Pauses between attempts at something that fails for now. They double, with jitter, up to two seconds. */
export class Backoff {
  #failures = 0;

  /** Waits longer than the last time, or until `signal` is aborted. */
  async wait(signal: AbortSignal): Promise<void> {
    const fullMs = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(this.#failures, 20), MAX_PAUSE_MS);
    this.#failures++;
    await pause(fullMs * (0.5 + Math.random() / 2), signal);
  }

  /** An attempt succeeded: the next pause is short again. Returns whether an attempt had failed before. */
  reset(): boolean {
    const failed = this.#failures > 0;
    this.#failures = 0;
    return failed;
  }
}

import { pause } from './clock.ts';

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;

/** Growing pauses between attempts at something that fails for now: doubling, with jitter, up to two seconds. */
export class Patience {
  #failures = 0;

  /** Waits a little longer than the last time, or until `signal` is aborted. */
  async wait(signal: AbortSignal): Promise<void> {
    const full = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(this.#failures, 20), LONGEST_PAUSE_MS);
    this.#failures++;
    await pause(full * (0.5 + Math.random() / 2), signal);
  }

  /** It worked: the next pause is short again. True if it had failed before. */
  reset(): boolean {
    const failed = this.#failures > 0;
    this.#failures = 0;
    return failed;
  }
}

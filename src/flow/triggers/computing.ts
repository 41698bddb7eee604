/**
 * Each time that a request has spent this much CPU time (ms) on computing due times, it counts as one more call in the
 * caller's rate limit. Computing one due time usually takes 50 µs, but some take a few ms.
 */
const MS_PER_CALL = 2;

/** Measures the CPU time that one request spends on computing due times. */
export class Computing {
  #micros = 0;

  run<T>(compute: () => T): T {
    const from = process.threadCpuUsage();
    try {
      return compute();
    } finally {
      const { user, system } = process.threadCpuUsage(from);
      this.#micros += user + system;
    }
  }

  /** The price of the measured CPU time, as a number of calls in the caller's rate limit. It can be a fraction. */
  get priceInCalls(): number {
    return this.#micros / 1000 / MS_PER_CALL;
  }
}

/**
 * CPU time for computing due times that counts as one call in the rate limit. A due time usually takes 50 µs, and a
 * rare one some ms.
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

  /** Number of further calls that the request counts as in the caller's rate limit, because of the computing. */
  get calls(): number {
    return this.#micros / 1000 / MS_PER_CALL;
  }
}

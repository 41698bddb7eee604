/** CPU time of computing due times that counts as one call. A due time takes 50 µs, a rare one some ms. */
const MS_PER_CALL = 2;

/** Measures the CPU time that computing due times takes for one call. */
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

  /** See `calls` of Answer. */
  get calls(): number {
    return this.#micros / 1000 / MS_PER_CALL;
  }
}

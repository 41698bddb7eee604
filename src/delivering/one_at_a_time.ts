/** Runs asynchronous functions one at a time, in the order of the calls. */
export class OneAtATime {
  #last: Promise<void> = Promise.resolve();

  /** Runs `work` when all earlier functions have ended. Resolves or rejects as `work` does. */
  async take<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await before;
    return work().finally(resolve);
  }
}

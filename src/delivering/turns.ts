/** Lets one piece of work run at a time. Other pieces wait, in the order of their calls. */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  /** Runs `work` when all earlier work has ended. Settles with the result or the error of `work`. */
  async take<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await before;
    return work().finally(resolve);
  }
}

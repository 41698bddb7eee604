/**
 * Shares a reading among callers that ask for it at the same time. A caller that asks during a reading gets the result
 * of the next reading, because the running one may return data from before the call. So there are never more than two
 * readings, however many callers ask: one that runs and one that follows.
 */
export class SharedReading<T> {
  readonly #read: () => Promise<T>;
  #underWay: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(read: () => Promise<T>) {
    this.#read = read;
  }

  get(): Promise<T> {
    if (!this.#underWay) return this.#begin();
    const begin = () => this.#begin();
    this.#next ??= this.#underWay.then(begin, begin);
    return this.#next;
  }

  #begin(): Promise<T> {
    this.#next = undefined;
    const reading = this.#read();
    this.#underWay = reading;
    const end = () => {
      if (this.#underWay === reading) this.#underWay = undefined;
    };
    reading.then(end, end);
    return reading;
  }
}

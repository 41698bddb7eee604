/**
 * Shares a reading among callers that ask at the same time. A caller that asks during a reading gets the result of
 * the next one, because the running one may have data from before. So there are never more than two readings, one
 * that runs and one that follows, however many callers ask.
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

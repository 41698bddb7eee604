/**
 * Reads data once for all waiting callers of `get`. A call during a reading waits for the next reading, because the
 * present reading may have missed a change made just before the call.
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
      this.#underWay = undefined;
    };
    reading.then(end, end);
    return reading;
  }
}

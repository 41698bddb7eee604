/**
 * Reads data for several callers at once: all calls of `get` that come during a reading share the next reading. They
 * cannot share the present one, because it may have missed a change made just before the call.
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

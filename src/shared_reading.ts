/**
 * Shares a reading among those that ask for it at the same time: one is under way, and all that ask meanwhile get
 * the next. So nobody gets what was read before it asked, and many cost as much as two.
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

/**
 * An event carries the time of its sending in its data: `{"sentAtUs": …}`. The time is of the monotonic clock that all
 * processes of a machine share; each process's `performance.now()` starts elsewhere.
 */
const STAMP = /"sentAtUs":(\d+)/;
const STAMPS = /"sentAtUs":(\d+)/g;

export function nowMicros(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** Converts times of the wall clock to stamps. It compares the two clocks once, when it is made. */
export class Stamps {
  readonly #aheadUs: number;

  constructor() {
    const before = Date.now();
    let now = before;
    // The wall clock shows whole milliseconds, so it is exact only at the moment at which it changes.
    while (now === before) now = Date.now();
    this.#aheadUs = nowMicros() - now * 1000;
  }

  /** Returns the stamp of a time in ms since the Unix epoch. */
  at(ms: number): number {
    return ms * 1000 + this.#aheadUs;
  }
}

/** Returns the body with its stamp set to this time. */
export function stampedAt(body: string, atUs: number): string {
  return body.replace(STAMP, `"sentAtUs":${atUs}`);
}

/** Returns the ages of the body's stamps, in ms, in their order. */
export function agesMs(body: string): number[] {
  const now = nowMicros();
  return Array.from(body.matchAll(STAMPS), ([, sentAtUs]) => (now - Number(sentAtUs)) / 1000);
}

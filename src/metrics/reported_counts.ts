import type { Store } from '../store/store.ts';

/** The most counters in one script call: about a millisecond of Redis. */
const SLICE = 1000;

/** A counter's count that was sent, and the one that had been sent before. */
export interface Report {
  field: Buffer;
  from: number;
  to: number;
}

/** Up to which count each counter was sent to the metric service, by whichever worker. */
export class ReportedCounts {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** A function from a packed field to the count that was sent last; 0 if none was. Throws as Store does. */
  async read(): Promise<(field: Buffer) => number> {
    const reply = await this.#store.command((redis, keys) =>
      redis.callBuffer('HGETALL', keys.counters_reported()),
    );
    const flat = reply as Buffer[];
    const counts = new Map<string, number>();
    for (let i = 0; i + 1 < flat.length; i += 2)
      counts.set(String(flat[i]?.toString('latin1')), Number(flat[i + 1]));
    return (field) => counts.get(field.toString('latin1')) ?? 0;
  }

  /** Notes what was sent. Noting it again changes nothing, even if more was noted meanwhile. Throws as Store does. */
  async note(reports: readonly Report[]): Promise<void> {
    for (let i = 0; i < reports.length; i += SLICE) {
      const slice = reports.slice(i, i + SLICE);
      await this.#store.run('report', ...slice.flatMap(({ field, from, to }) => [field, from, to]));
    }
  }
}

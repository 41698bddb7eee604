import type { Log } from '../log.ts';
import type { Adapter } from './adapter.ts';
import type { Figure } from './figures.ts';

/** Writes a line a figure into the log; counters as totals. */
export class Print implements Adapter {
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  async send(figures: readonly Figure[]): Promise<void> {
    for (const { kind, name, value, tags } of figures)
      this.#log.info({ [kind]: name, value, tags }, 'figure');
  }
}

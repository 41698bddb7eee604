import { clock } from '../../clock.ts';
import type { Log } from '../../log.ts';

/**
 * Minimum time between two log lines. Without this minimum, a trigger that can never publish would write a line each
 * second.
 */
const LINE_EVERY_MS = 10_000;

/**
 * Logs how many due times of triggers passed without an event, and why: at most one line in ten seconds, with the
 * numbers since the last line.
 */
export class MissedLog {
  readonly #log: Log;
  #missed = new Map<string, number>();
  #loggedAtMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  note(reason: string, count: number): void {
    if (count === 0) return;
    this.#missed.set(reason, (this.#missed.get(reason) ?? 0) + count);
    const waitMs = this.#loggedAtMs + LINE_EVERY_MS - clock.monotonicMs();
    this.#timer ??= setTimeout(() => this.#write(), Math.max(0, waitMs)).unref();
  }

  #write(): void {
    this.#log.warn({ missed: Object.fromEntries(this.#missed) }, 'triggers missed due times');
    this.#missed = new Map();
    this.#timer = undefined;
    this.#loggedAtMs = clock.monotonicMs();
  }
}

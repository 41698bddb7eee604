import type { Call } from './command.ts';
import { number } from './tables.ts';

const BAR_WIDTH = 30;
const REDRAW_MS = 100;

/** Counts the stored events. If stderr is a terminal, also shows the number and a progress bar there. */
export class Progress {
  stored = 0;
  readonly #beganMs = performance.now();
  readonly #stderr: NodeJS.WriteStream | undefined;
  readonly #totalBytes: number | undefined;
  #bytes = 0;
  #drawnMs = 0;

  constructor({ streams: { stderr } }: Call, totalBytes: number | undefined) {
    this.#stderr = stderr.isTTY ? stderr : undefined;
    this.#totalBytes = totalBytes;
  }

  get seconds(): number {
    return (performance.now() - this.#beganMs) / 1000;
  }

  add(events: number, bytes: number): void {
    this.stored += events;
    this.#bytes += bytes;
    const nowMs = performance.now();
    if (nowMs - this.#drawnMs < REDRAW_MS) return;
    this.#drawnMs = nowMs;
    this.#stderr?.write(`\r${this.#bar()}${number(this.stored)} events`);
  }

  clear(): void {
    this.#stderr?.write('\r\x1b[K');
  }

  #bar(): string {
    if (!this.#totalBytes) return '';
    const done = Math.round(BAR_WIDTH * Math.min(1, this.#bytes / this.#totalBytes));
    return `[${'#'.repeat(done)}${' '.repeat(BAR_WIDTH - done)}] `;
  }
}

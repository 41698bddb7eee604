import { residentMiB } from '../harness/measuring/cpu.ts';

/** Samples the resident memory of a process for its peak. */
export class Residence {
  readonly #pid: number;
  readonly #timer: NodeJS.Timeout;
  #highest = 0;

  constructor(pid: number) {
    this.#pid = pid;
    this.#timer = setInterval(() => this.#look(), 100);
    this.#look();
  }

  /** The peak since the last call, in MiB. */
  takeHighest(): number {
    const highest = this.#highest;
    this.#highest = 0;
    this.#look();
    return highest;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    this.#highest = Math.max(this.#highest, residentMiB(this.#pid));
  }
}

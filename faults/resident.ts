import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** The resident memory (RSS) of a process, in bytes. */
function residentBytes(pid: number): number {
  const kilobytes =
    process.platform === 'linux'
      ? /^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
      : execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' });
  return Number(kilobytes) * 1024;
}

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

  /** The peak since the last call. */
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
    this.#highest = Math.max(this.#highest, residentBytes(this.#pid));
  }
}

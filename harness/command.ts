import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { until } from './until.ts';

export const root = join(import.meta.dirname, '..');

/** A command of bin/ that runs, and all that it has printed. */
export class Command {
  output = '';
  readonly exitCode: Promise<number | null>;
  readonly #child: ChildProcess;
  #ended = false;

  /** Runs bin/`name` from another directory than the project's, so that it must find its own way. */
  constructor(name: string, args: string[] = [], env: Record<string, string> = {}) {
    const child = spawn(join(root, 'bin', name), args, {
      cwd: '/',
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.output += text;
      });
    }
    this.exitCode = new Promise((resolve, reject) => {
      child.once('error', reject).once('close', (code) => {
        this.#ended = true;
        resolve(code);
      });
    });
  }

  /** Waits until it has printed what matches; throws with its output when it ends before, or takes too long. */
  async prints(pattern: RegExp, timeoutMs = 30_000): Promise<void> {
    const seen = () => pattern.test(this.output) || this.#ended;
    await until(seen, { timeoutMs, what: `${pattern}` }).catch((error: Error) => {
      throw new Error(`${error.message}; it printed:\n${this.output}`);
    });
    if (!pattern.test(this.output))
      throw new Error(`it ended without ${pattern}; it printed:\n${this.output}`);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }
}

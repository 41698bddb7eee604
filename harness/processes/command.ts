import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { until } from '../until.ts';

/** The folder of the project. */
export const root = join(import.meta.dirname, '..', '..');

/**
 * The folder in which Node keeps compiled files, if `bin/test` has set one. With it, processes start in half
 * the time.
 */
const { NODE_COMPILE_CACHE } = process.env;
export const compileCache = NODE_COMPILE_CACHE ? { NODE_COMPILE_CACHE } : {};

/** A process and its output. */
export class PrintingProcess {
  output = '';
  /** Rejects if the process cannot be started. */
  readonly exitCode: Promise<number | null>;
  readonly #child: ChildProcess;
  #ended = false;

  constructor(file: string, args: string[], { cwd, env }: { cwd: string; env: NodeJS.ProcessEnv }) {
    const child = spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
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

  get pid(): number {
    return this.#child.pid as number;
  }

  /** Resolves with the match once the output matches. Throws with the output if the process ends first. */
  async prints(pattern: RegExp): Promise<RegExpExecArray> {
    const found = () => pattern.exec(this.output);
    await until(() => found() ?? this.#ended, { what: `${pattern}` }).catch((error: Error) => {
      throw new Error(`${error.message}; it printed:\n${this.output}`);
    });
    const match = found();
    if (match) return match;
    throw new Error(`it ended without ${pattern}; it printed:\n${this.output}`);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Ends the process with SIGKILL. It is not an error if it has ended. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.exitCode;
  }
}

/** A command of bin/. It runs in another directory, to show that it finds the project's files. */
export class Command extends PrintingProcess {
  constructor(name: string, args: string[] = [], env: Record<string, string> = {}) {
    super(join(root, 'bin', name), args, { cwd: '/', env: { ...process.env, ...env } });
  }
}

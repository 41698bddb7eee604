import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { root } from './command.ts';
import { until } from './until.ts';

export const ROOT_KEY = 'the-root-key-of-this-test';

/** The web entry as the Procfile runs it, with an environment of its own and all that it has printed. */
export class WebProcess {
  output = '';
  readonly exitCode: Promise<number | null>;
  readonly #child: ChildProcess;
  #ended = false;

  /** PORT is any free one, and figures are never flushed by themselves, unless `env` says otherwise. */
  constructor(env: Record<string, string>) {
    const child = spawn(process.execPath, [join(root, 'src', 'web.ts')], {
      env: {
        PATH: process.env.PATH,
        PORT: '0',
        ROUTEMASTER_ROOT_KEY: ROOT_KEY,
        ROUTEMASTER_COUNTER_FLUSH_INTERVAL: '3600',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.output += text;
      });
    }
    this.exitCode = new Promise((resolve) => {
      child.once('close', (code) => {
        this.#ended = true;
        resolve(code);
      });
    });
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** The port that it listens on, as soon as it does. Throws with its output if it ends instead. */
  async port(): Promise<number> {
    await until(() => this.#ended || this.#listening, { timeoutMs: 30_000 });
    if (this.#listening === undefined) throw new Error(`it does not listen:\n${this.output}`);
    return this.#listening;
  }

  get #listening(): number | undefined {
    const port = /"port":(\d+),"msg":"listening"/.exec(this.output)?.[1];
    return port === undefined ? undefined : Number(port);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Ends it as it is; it is not an error if it has ended. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.exitCode;
  }
}

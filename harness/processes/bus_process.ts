import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { ProcfileLine } from '../local/procfile.ts';
import { until } from '../until.ts';
import { root } from './command.ts';
import { keep } from './keeper.ts';

const ERROR = 50;
const SWEPT = /^the sweep found/;

/** A line of the log. A line that is not JSON counts as an error, because only a crash prints one. */
interface LogLine {
  level: number;
  msg: string;
  [field: string]: unknown;
}

interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A process for one line of the Procfile, with all its log lines. It must not end by itself. */
export class BusProcess {
  readonly name: string;
  readonly log: LogLine[] = [];
  /** Settles when the process has ended. */
  readonly ended: Promise<Ending>;
  /** Rejects if the process ends by itself. */
  readonly lost: Promise<never>;
  readonly #child: ChildProcess;
  #ending: Ending | undefined;
  #mayEnd = false;

  /** Starts the command in the `folder` of a release, by default this one. */
  constructor({ name, command }: ProcfileLine, env: NodeJS.ProcessEnv, folder = root) {
    this.name = name;
    const child = spawn('sh', ['-c', `exec ${command}`], {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.#child = child;
    const release = child.pid ? keep(child.pid, 'KILL') : () => {};
    for (const stream of [child.stdout, child.stderr]) this.#read(stream);
    this.ended = once(child, 'close').then(([code, signal]) => {
      release();
      this.#ending = { code, signal };
      return this.#ending;
    });
    this.lost = new Promise((_, reject) => {
      void this.ended.then((ending) => {
        if (!this.#mayEnd) reject(new Error(this.#describe(ending)));
      });
    });
    this.lost.catch(() => {}); // `faults` reports it too
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get runs(): boolean {
    return this.#ending === undefined;
  }

  /** Waits for a log line with this message. Throws with the log if the process ends before. */
  async logs(message: string): Promise<LogLine> {
    const found = () => this.log.find(({ msg }) => msg === message);
    const what = `${this.name} logs ${message}`;
    try {
      await until(() => found() ?? !this.runs, { what });
    } catch (error) {
      throw new Error(`${(error as Error).message}, only\n${this.#text(this.log)}`);
    }
    const line = found();
    if (line) return line;
    throw new Error(`${this.name} ended without logging ${message}:\n${this.#text(this.log)}`);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Ends the process with SIGKILL. */
  async kill(): Promise<void> {
    this.#mayEnd = true;
    this.signal('SIGKILL');
    await this.ended;
  }

  /**
   * Ends the process with SIGTERM, so that it finishes its work. Resolves with its end; any exit code but 0
   * is a fault.
   */
  async stop(): Promise<Ending> {
    this.#mayEnd = true;
    this.signal('SIGTERM');
    return this.ended;
  }

  /**
   * Returns the faults of the process: that it ended by itself or with an exit code other than 0, and each
   * logged error or finding of a sweep that no test has announced.
   */
  faults(announced: readonly RegExp[]): string[] {
    const errors = this.log.filter(
      ({ level, msg }) =>
        (level >= ERROR || SWEPT.test(msg)) && !announced.some((pattern) => pattern.test(msg)),
    );
    const faults = errors.length > 0 ? [`${this.name} logged\n${this.#text(errors)}`] : [];
    if (this.#ending) {
      const { code, signal } = this.#ending;
      if (!this.#mayEnd || (signal !== 'SIGKILL' && code !== 0)) {
        faults.push(this.#describe(this.#ending));
      }
    }
    return faults;
  }

  #read(stream: Readable): void {
    createInterface({ input: stream }).on('line', (line) => this.log.push(parse(line)));
  }

  #describe({ code, signal }: Ending): string {
    return `${this.name} ended (${signal ?? code}):\n${this.#text(this.log.slice(-10))}`;
  }

  #text(lines: LogLine[]): string {
    return lines.map((line) => JSON.stringify(line)).join('\n');
  }
}

function parse(line: string): LogLine {
  try {
    const entry = JSON.parse(line);
    if (typeof entry.level === 'number') return { msg: '', ...entry };
  } catch {}
  return { level: ERROR, msg: line };
}

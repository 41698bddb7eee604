import { type ChildProcess, execFile, fork, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { promisify } from 'node:util';
import { compileCache, root } from '../../../harness/processes/command.ts';

const execute = promisify(execFile);

const MAIN = join(root, 'packages', 'cli', 'src', 'main.ts');
const STAYING = join(import.meta.dirname, 'staying.ts');
const CONDITION = '--conditions=routemaster-source';

interface Transcript {
  stdout: string;
  stderr: string;
  status: number | null;
}

interface TypedOptions {
  stdin?: string;
  env?: Record<string, string>;
}

/** Runs commands in a folder of its own, which is the home directory too, and empty at first. */
export class Terminal {
  readonly folder = mkdtempSync(join(tmpdir(), 'routemaster-terminal-'));
  #staying: ChildProcess | undefined;
  #count = 0;

  constructor() {
    after(() => {
      this.#staying?.kill('SIGKILL');
      rmSync(this.folder, { recursive: true, force: true });
    });
  }

  /** Starts `rtm` with these arguments, from its sources. */
  start(args: readonly string[], { env = {} }: TypedOptions = {}) {
    return spawn(process.execPath, [CONDITION, MAIN, ...args], {
      cwd: this.folder,
      env: { ...this.#env, ...env },
      stdio: 'pipe',
    });
  }

  /** Runs a program of this folder, which uses the sources of `rtm`. Resolves with its output. */
  async run(file: string, args: readonly string[]): Promise<string> {
    const program = [CONDITION, join(import.meta.dirname, file), ...args];
    return (await execute(process.execPath, program, { env: this.#env })).stdout;
  }

  /** Starts a command on a screen of 30 rows. Text written to its stdin arrives as if it were typed. */
  onScreen(command: string, columns = 100) {
    return spawn('script', ['-qefc', `stty cols ${columns} rows 30; exec ${command}`, '/dev/null'], {
      cwd: this.folder,
      env: { ...this.#env, SHELL: '/bin/sh', TERM: 'xterm' },
      stdio: 'pipe',
    });
  }

  /** Starts `rtm` on a screen. */
  rtmOnScreen(line: string, columns?: number) {
    const command = `${process.execPath} ${CONDITION} ${MAIN} ${line}`;
    return this.onScreen(command, columns);
  }

  /**
   * Runs `rtm` in a process that stays for the next command, which takes a tenth of the CPU of a process for each. It
   * waits until nothing is left that would keep a process of the command's own from ending.
   */
  rtm(line: string | readonly string[], { stdin = '' } = {}): Promise<Transcript> {
    const staying = this.#stayingProcess();
    const id = ++this.#count;
    return new Promise((resolve, reject) => {
      const ended = () => reject(new Error(`the process that runs rtm ended before it had run ${line}`));
      const answered = (answer: { id: number; transcript: Transcript }) => {
        if (answer.id !== id) return;
        staying.off('message', answered).off('exit', ended);
        resolve(answer.transcript);
      };
      staying.on('message', answered).once('exit', ended);
      staying.send({ id, args: wordsOf(line), stdin });
    });
  }

  /** Runs `rtm` in a process of its own. Resolves when it has ended. */
  async rtmAlone(line: string, { stdin = '', ...options }: TypedOptions = {}): Promise<Transcript> {
    const child = this.start(wordsOf(line), options);
    const transcript: Transcript = { stdout: '', stderr: '', status: null };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text) => {
        transcript[name] += text;
      });
    }
    // A command that does not read its stdin may have ended before the write.
    child.stdin.on('error', () => {}).end(stdin);
    return new Promise((resolve, reject) => {
      child.once('error', reject).once('close', (status) => resolve({ ...transcript, status }));
    });
  }

  #stayingProcess(): ChildProcess {
    this.#staying ??= fork(STAYING, { cwd: this.folder, env: this.#env, execArgv: [CONDITION] });
    return this.#staying.setMaxListeners(0);
  }

  get #env() {
    return { PATH: process.env.PATH, HOME: this.folder, ...compileCache };
  }
}

/** Returns the arguments in a line without empty ones. Those of a list are left as they are. */
const wordsOf = (line: string | readonly string[]) =>
  typeof line === 'string' ? line.split(' ').filter(Boolean) : line;

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { compileCache, root } from '../../../harness/processes/command.ts';

const MAIN = join(root, 'packages', 'cli', 'src', 'main.ts');

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

  constructor() {
    after(() => rmSync(this.folder, { recursive: true, force: true }));
  }

  /** Starts `rtm` with these arguments, from its sources. */
  start(args: readonly string[], { env = {} }: TypedOptions = {}) {
    return spawn(process.execPath, ['--conditions=routemaster-source', MAIN, ...args], {
      cwd: this.folder,
      env: { PATH: process.env.PATH, HOME: this.folder, ...compileCache, ...env },
      stdio: 'pipe',
    });
  }

  /** Starts a command on a screen of 30 rows. Text written to its stdin arrives as if it were typed. */
  onScreen(command: string, columns = 100) {
    return spawn('script', ['-qefc', `stty cols ${columns} rows 30; exec ${command}`, '/dev/null'], {
      cwd: this.folder,
      env: { PATH: process.env.PATH, HOME: this.folder, ...compileCache, SHELL: '/bin/sh', TERM: 'xterm' },
      stdio: 'pipe',
    });
  }

  /** Starts `rtm` on a screen. */
  rtmOnScreen(line: string, columns?: number) {
    const command = `${process.execPath} --conditions=routemaster-source ${MAIN} ${line}`;
    return this.onScreen(command, columns);
  }

  /** Resolves when the command has ended. */
  async rtm(line: string, { stdin = '', ...options }: TypedOptions = {}): Promise<Transcript> {
    const child = this.start(line.split(' ').filter(Boolean), options);
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
}

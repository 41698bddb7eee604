import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { keep } from '../processes/keeper.ts';
import type { ProcfileLine } from './procfile.ts';

/**
 * A running process for one line of the Procfile. It has a process group of its own, so that a Ctrl-C in the
 * terminal reaches only the launcher, which stops each process once and in order.
 */
export class ProcfileProcess {
  readonly name: string;
  /** Resolves with a description of its end, and its exit code if it has one, when the process has ended. */
  readonly ended: Promise<{ how: string; code?: number }>;
  readonly #child: ChildProcess;

  constructor({ name, command }: ProcfileLine, env: NodeJS.ProcessEnv, print: (line: string) => void) {
    this.name = name;
    const child = spawn('sh', ['-c', `exec ${command}`], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.#child = child;
    const release = child.pid ? keep(child.pid, 'TERM') : () => {};
    const read = (stream: Readable) => createInterface({ input: stream }).on('line', print);
    read(child.stdout);
    read(child.stderr);
    // 'close' comes after 'exit' and the last line of output, but not while a grandchild holds the pipes.
    this.ended = once(child, 'exit').then(
      async ([code, signal]) => {
        release();
        await Promise.race([
          once(child, 'close'),
          new Promise((resolve) => setTimeout(resolve, 200).unref()),
        ]);
        return signal ? { how: `was ended by ${signal}` } : { how: `ended with exit code ${code}`, code };
      },
      (error) => ({ how: `could not be started: ${error.message}` }),
    );
  }

  /** Asks the process to stop after finishing what is under way. */
  stop(): void {
    this.#child.kill('SIGTERM');
  }

  /** Kills the process and all that it started. It is not an error if it has ended. */
  kill(): void {
    try {
      if (this.#child.pid) process.kill(-this.#child.pid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

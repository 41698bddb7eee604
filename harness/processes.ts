import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** Whether a process of this id runs; one that has ended and only awaits its parent (a zombie) does not. */
export function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return process.platform !== 'linux'; // no /proc elsewhere; on Linux it ended between the two looks
  }
}

export interface RunningProcess {
  pid: number;
  command: string;
}

/**
 * The processes that have `text` in their environment or command: one process and all that descended from it, if the
 * text is its own. (Redis writes its title over its environment, but the title names its socket.)
 */
export function processesWith(text: string): RunningProcess[] {
  const all = process.platform === 'linux' ? readProc(text) : readPs(text);
  return all.filter(({ pid }) => runs(pid));
}

// Not `ps`: slim images have none.
function readProc(text: string): RunningProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
        const environment = readFileSync(`/proc/${name}/environ`, 'utf8');
        return command.includes(text) || environment.includes(text) ? [{ pid: Number(name), command }] : [];
      } catch {
        return []; // it ended, or it is not ours to look at
      }
    });
}

function readPs(text: string): RunningProcess[] {
  return execFileSync('ps', ['-AEww', '-o', 'pid=,command='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(text))
    .map((line) => ({ pid: Number.parseInt(line, 10), command: line.trim().replace(/^\d+\s+/, '') }));
}

/** Ends a process with SIGKILL. It is not an error if it has ended. */
export function killIfRunning(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

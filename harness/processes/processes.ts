import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** Returns true if a process with this id runs and is not a zombie. */
export function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return process.platform !== 'linux'; // other systems have no /proc; on Linux it has just ended
  }
}

interface RunningProcess {
  pid: number;
  command: string;
}

/**
 * Returns the processes that have `text` in their environment or command. If only one process was given this
 * text, they are that process and its descendants. Redis overwrites its environment with its title, but the
 * title names its socket.
 */
export function processesWith(text: string): RunningProcess[] {
  const all = process.platform === 'linux' ? readProc(text) : readPs(text);
  return all.filter(({ pid }) => runs(pid));
}

// Reads /proc, because slim images have no `ps`.
function readProc(text: string): RunningProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
        const environment = readFileSync(`/proc/${name}/environ`, 'utf8');
        return command.includes(text) || environment.includes(text) ? [{ pid: Number(name), command }] : [];
      } catch {
        return []; // it has ended, or we may not read it
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

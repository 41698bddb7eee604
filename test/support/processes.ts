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

/** The processes whose environment holds `variable` (`NAME=value`): one process and all that descended from it. */
export function processesWith(variable: string): RunningProcess[] {
  const all = process.platform === 'linux' ? readProc(variable) : readPs(variable);
  return all.filter(({ pid }) => runs(pid));
}

// Not `ps`: slim images have none.
function readProc(variable: string): RunningProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        if (!readFileSync(`/proc/${name}/environ`, 'utf8').split('\0').includes(variable)) return [];
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
        return [{ pid: Number(name), command }];
      } catch {
        return []; // it ended, or it is not ours to look at
      }
    });
}

function readPs(variable: string): RunningProcess[] {
  return execFileSync('ps', ['-AEww', '-o', 'pid=,command='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(variable))
    .map((line) => ({ pid: Number.parseInt(line, 10), command: line.trim().replace(/^\d+\s+/, '') }));
}

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** Unit of CPU time in /proc/PID/stat, the same on every architecture on which Node runs. */
const MICROS_A_TICK = 10_000;

/** Returns the CPU time (user and system) that a process and its threads have used so far, in µs. */
export function cpuMicros(pid: number): number {
  if (process.platform !== 'linux') return ofPs(pid);
  return ofThreads(pid) || ofProcess(pid);
}

/**
 * Returns the CPU time of a process's present threads in µs, by the scheduler's counters; 0 if the kernel has no such
 * counters. The figure of the whole process has a resolution of only 10 ms. Ended threads are not counted, so no
 * thread may end between two readings.
 */
function ofThreads(pid: number): number {
  let nanos = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      nanos += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT' && code !== 'ESRCH') throw error;
    }
  }
  return nanos / 1000;
}

function ofProcess(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field is the name in brackets, which may contain spaces. The times are the 14th and 15th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * MICROS_A_TICK;
}

/** Returns the CPU time that `ps` tells, in µs. It writes [[days-]hours:]minutes:seconds.hundredths. */
function ofPs(pid: number): number {
  const text = execFileSync('ps', ['-o', 'time=', '-p', String(pid)], { encoding: 'utf8' }).trim();
  const [clock = '', days = '0'] = text.split('-').reverse();
  const seconds = clock.split(':').reduce((sum, part) => sum * 60 + Number(part), 0);
  return (Number(days) * 86_400 + seconds) * 1e6;
}

/** Returns a CPU time within `windowMs` as a percentage of one core. */
export function percentOfCore(micros: number, windowMs: number): number {
  return micros / windowMs / 10;
}

/** Returns how long the main thread of a process waited for a CPU (ms); 0 except on Linux. */
export function waitedMs(pid: number): number {
  if (process.platform !== 'linux') return 0;
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
}

/** Returns the resident memory of a process, in MiB. */
export function residentMiB(pid: number): number {
  const kilobytes =
    process.platform === 'linux'
      ? /^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
      : execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' });
  return Number(kilobytes) / 1024;
}

/**
 * Starts to measure the CPU time of processes. Returns a function that returns the CPU time of each since then,
 * in µs.
 */
export function cpuSince<Pids extends Record<string, number | undefined>>(pids: Pids): () => Pids {
  const now = () =>
    Object.entries(pids).map(([name, pid]): [string, number | undefined] => [
      name,
      pid === undefined ? undefined : cpuMicros(pid),
    ]);
  const before = Object.fromEntries(now());
  return () =>
    Object.fromEntries(
      now().map(([name, micros]) => [name, micros === undefined ? undefined : micros - (before[name] ?? 0)]),
    ) as Pids;
}

import { writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';

/**
 * Sets the nice value of a process. Where Linux groups processes by their session (autogroup), a nice value counts only
 * among the processes of the session, so the session gets it too. Otherwise an attacker at the lowest priority took as much
 * CPU as the bus: each process of a bus has a session of its own. Does nothing if the value may not be set.
 */
export function setNice(pid: number, nice: number): void {
  try {
    setPriority(pid, nice);
    writeFileSync(`/proc/${pid === 0 ? 'self' : pid}/autogroup`, String(nice));
  } catch {
    // A process that is not root may not lower the value again. Other systems than Linux have no autogroup.
  }
}

import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The names of the locks that this process holds. Any other lock with the id of this process is left by a dead process
 * that had the same id, as is usual in containers.
 */
const held = new Set<string>();

/**
 * Takes the lock at `path`, a folder, for this process. Returns a function that ends the lock, or undefined if a living
 * process holds it. The lock of a dead process is removed.
 *
 * The folder contains a folder named after the holder. A process that finds the holder dead removes only this inner
 * folder, so that it cannot remove a lock that another process has taken meanwhile. To take the lock, a process renames
 * a folder of its own to `path`. That fails unless the folder at `path` is missing or empty.
 */
export function takeLock(path: string): (() => void) | undefined {
  if (isHeld(path)) return undefined;
  const name = `${process.pid}.${randomBytes(8).toString('hex')}`;
  const mine = `${path}.${name}`;
  mkdirSync(join(mine, name), { recursive: true });
  try {
    renameSync(mine, path);
  } catch (error) {
    rmSync(mine, { recursive: true });
    if (isOneOf(error, 'ENOTEMPTY', 'EEXIST')) return undefined;
    throw error;
  }
  held.add(name);
  return () => {
    held.delete(name);
    rmSync(join(path, name), { recursive: true, force: true });
    try {
      rmdirSync(path);
    } catch (error) {
      // Another process may have taken the lock already.
      if (!isOneOf(error, 'ENOTEMPTY', 'EEXIST', 'ENOENT')) throw error;
    }
  };
}

function isHeld(path: string): boolean {
  const isAlive = namesIn(path).map((name) => {
    if (lives(name)) return true;
    rmSync(join(path, name), { recursive: true, force: true });
    return false;
  });
  return isAlive.includes(true);
}

function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch (error) {
    if (isOneOf(error, 'ENOENT')) return [];
    throw error;
  }
}

function lives(name: string): boolean {
  const pid = Number.parseInt(name, 10);
  if (pid === process.pid) return held.has(name);
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return !isOneOf(error, 'ESRCH');
  }
}

function isOneOf(error: unknown, ...codes: string[]): boolean {
  return codes.includes((error as NodeJS.ErrnoException).code ?? '');
}

import { existsSync } from 'node:fs';
import { mkdir, readlink, rename, rm, symlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { until } from '../until.ts';

const MAKES_WITHIN_MS = 100_000;

/**
 * Resolves when `make` has filled the folder, in this process or another: test files run at the same time, and share
 * the folder that one of them makes. A folder that exists is used as it is.
 */
export async function madeOnce(folder: string, make: (folder: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const lock = `${folder}.lock`;
  const isThere = () => existsSync(folder) && 'there';
  const found = await until(async () => isThere() || ((await locked(lock)) && 'mine to make'), {
    timeoutMs: MAKES_WITHIN_MS,
    what: `${folder} is made`,
  });
  if (found === 'there') return;
  const unfinished = `${folder}.unfinished`;
  try {
    if (isThere()) return;
    await rm(unfinished, { recursive: true, force: true });
    await mkdir(unfinished);
    await make(unfinished);
    await rename(unfinished, folder);
  } finally {
    await rm(lock, { force: true });
  }
}

/** Takes the lock, a link to the id of this process. Returns false if held. Removes the lock of a dead process. */
async function locked(lock: string): Promise<boolean> {
  try {
    await symlink(String(process.pid), lock);
    return true;
  } catch {
    const holder = Number(await readlink(lock));
    if (!runs(holder)) await rm(lock, { force: true });
    return false;
  }
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

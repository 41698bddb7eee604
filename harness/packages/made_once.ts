import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { takeLock } from '../process_lock.ts';
import { until } from '../until.ts';

const MAKES_WITHIN_MS = 100_000;

/**
 * Resolves when `make` has filled the folder, in this process or another: test files run at the same time, and share
 * the folder that one of them makes. A folder that exists is used as it is.
 */
export async function madeOnce(folder: string, make: (folder: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const isThere = () => existsSync(folder) && 'there';
  const found = await until(() => isThere() || takeLock(`${folder}.making`), {
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
    found();
  }
}

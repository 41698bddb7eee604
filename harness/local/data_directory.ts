import { chmodSync, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;
const OTHERS = 0o077;

/** The names that bin/start and its Redis give. */
const OURS = /^(root_key|demo\.json|tour_client|redis\.(url|log|sock)|appendonlydir|dump\.rdb|temp-.*)$/;

export class DataDirectoryError extends Error {}

/**
 * Makes the directory if there is none, and closes it and the files in it to other users of the machine: it holds the root key.
 * Whatever this process and its children create from now on is closed to others too. Throws DataDirectoryError for a directory
 * that others can read and that has other files: it may be shared on purpose.
 */
export function prepareDataDirectory(directory: string): void {
  process.umask(OTHERS);
  mkdirSync(directory, { recursive: true });
  const names = readdirSync(directory);
  const isOpen = (statSync(directory).mode & OTHERS) !== 0;
  if (isOpen && names.some((name) => !OURS.test(name) && !name.startsWith('.')))
    throw new DataDirectoryError(
      `others can read ${directory}, which has other files too: set ROUTEMASTER_DATA_DIR to a directory for bin/start alone`,
    );
  close(directory, names);
}

function close(directory: string, names: string[]): void {
  chmodSync(directory, DIRECTORY_MODE);
  for (const name of names.filter((each) => OURS.test(each))) closeEntry(join(directory, name));
}

/** Closes a file, or a directory with all that is in it. Sockets and links are left alone. */
function closeEntry(path: string): void {
  const entry = lstatSync(path);
  if (entry.isFile()) chmodSync(path, FILE_MODE);
  if (!entry.isDirectory()) return;
  chmodSync(path, DIRECTORY_MODE);
  for (const name of readdirSync(path)) closeEntry(join(path, name));
}

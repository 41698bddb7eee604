import { chmodSync, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { BootError } from '../../src/errors.ts';

const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;
const OTHERS = 0o077;

/** Names of the files and directories that bin/start makes. Earlier releases made `demo.json` and `starting` here. */
const OF_START = /^(root_key|demo|demo\.json|tour_client|cluster|starting|(cluster|starting)\.lock.*)$/;
/** Names of the files and directories that its Redis makes. */
const OF_REDIS = /^(redis\.(url|log|sock)|appendonlydir|dump\.rdb|temp-.*)$/;
/** Names of locks, which another bin/start may remove at any moment. Their folders are empty. */
const LOCKS = /^(cluster|starting)\.lock/;

/**
 * Makes the directory if there is none. It will hold the root key, so it and its files are closed to other
 * users, and so is whatever this process and its children create from now on. Throws BootError if
 * others can read the directory and it has other files: it may be shared on purpose.
 */
export function prepareDataDirectory(directory: string): void {
  process.umask(OTHERS);
  makeDirectory(directory);
  const names = readdirSync(directory);
  const isOpen = (statSync(directory).mode & OTHERS) !== 0;
  if (isOpen && names.some((name) => !isOurs(directory, name) && !name.startsWith('.')))
    throw new BootError(
      `others can read ${directory}, which has other files too: set ROUTEMASTER_DATA_DIR to a directory for bin/start alone`,
    );
  close(directory, names);
}

/** Makes a directory, and those above it, unless it exists. Throws BootError if that is not possible. */
export function makeDirectory(directory: string): void {
  try {
    makeLevels(directory);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why =
      code === 'EEXIST' || code === 'ENOTDIR'
        ? `${directory} is a file, or below one, but bin/start keeps its data in a directory there: move the file away`
        : `cannot make the directory ${directory} (${message}): let this user make it`;
    throw new BootError(`${why}, or set ROUTEMASTER_DATA_DIR to another directory`, { cause });
  }
}

/** Below /proc, mkdirSync with `recursive` never returns (Node 24.21). */
function makeLevels(directory: string): void {
  if (isDirectory(directory)) return;
  makeLevels(dirname(directory));
  try {
    mkdirSync(directory);
  } catch (error) {
    if (!isDirectory(directory)) throw error; // otherwise another start has made it
  }
}

const isDirectory = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

function close(directory: string, names: string[]): void {
  chmodSync(directory, DIRECTORY_MODE);
  for (const name of names.filter((each) => isOurs(directory, each))) closeEntry(join(directory, name));
}

/** Another program may have made a directory `demo`. It counts as ours only if nothing else is in it. */
function isOurs(directory: string, name: string): boolean {
  const isKnown = (each: string) => OF_START.test(each) || OF_REDIS.test(each);
  if (name !== 'demo') return isKnown(name);
  const path = join(directory, name);
  return lstatSync(path).isDirectory() && readdirSync(path).every(isKnown);
}

/** Closes a file, or a directory with its contents, to others. Leaves sockets, links and locks alone. */
function closeEntry(path: string): void {
  if (LOCKS.test(basename(path))) return;
  const entry = lstatSync(path);
  if (entry.isFile()) chmodSync(path, FILE_MODE);
  if (!entry.isDirectory()) return;
  chmodSync(path, DIRECTORY_MODE);
  for (const name of readdirSync(path)) closeEntry(join(path, name));
}

import { execFile } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../processes/command.ts';
import { madeOnce } from './made_once.ts';

const run = promisify(execFile);
/** The major versions of Node on which packages must run, the oldest first. */
export const VERSIONS = [20, 22, 24] as const;
const CACHE = join(root, 'node_modules', '.cache', 'nodes');

/** Returns a `node` of this major version: on PATH, or installed by this module. Undefined if there is none. */
export async function nodeOfVersion(major: number): Promise<string | undefined> {
  const onPath = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, 'node'));
  const cached = join(CACHE, String(major), 'node_modules', platformPackage(), 'bin', 'node');
  for (const path of [process.execPath, ...onPath, cached]) if ((await majorOf(path)) === major) return path;
  return undefined;
}

/** Returns the programs to run on this version: all on the oldest and the newest version, only the first in between. */
export function programsFor<T>(version: number, programs: readonly T[]): readonly T[] {
  return version === VERSIONS[0] || version === VERSIONS.at(-1) ? programs : programs.slice(0, 1);
}

/** Returns the npm package with Node's binary for this platform. The package `node` would fetch it by a script. */
function platformPackage(): string {
  const platform = `${process.platform}-${process.arch}`;
  return platform === 'darwin-arm64' ? `node-bin-${platform}` : `node-${platform}`;
}

/** Installs the newest Node of this major version from npm. Gives up at once if npm cannot be reached. */
function install(major: number): Promise<void> {
  return madeOnce(join(CACHE, String(major)), async (folder) => {
    const args = ['install', '--prefix', folder, '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'];
    const options = { cwd: folder, timeout: 60_000 };
    await run('npm', [...args, '--fetch-retries=0', `${platformPackage()}@${major}`], options);
  });
}

async function majorOf(path: string): Promise<number | undefined> {
  try {
    const { stdout } = await run(path, ['--version']);
    return Number(/^v(\d+)/.exec(stdout)?.[1]);
  } catch {
    return undefined;
  }
}

if (import.meta.main)
  for (const version of VERSIONS)
    if ((await nodeOfVersion(version)) === undefined)
      await install(version).catch((error: Error) => {
        console.error(`npm did not install Node ${version}; the tests on it are skipped. ${error.message}`);
      });

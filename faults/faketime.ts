import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { faketimeLibrary } from '../harness/processes/faketime_library.ts';

const APT = [
  'apt-get',
  '-y',
  '-qq',
  '-o',
  'Dpkg::Use-Pty=0',
  'install',
  '--no-install-recommends',
  'libfaketime',
];

/** Resolves with the path of libfaketime; installs it if need be. Throws an Error with the reason if that fails. */
export async function seeToFaketime(): Promise<string> {
  const there = faketimeLibrary();
  if (there) return there;
  const [command = '', ...args] = process.getuid?.() === 0 ? APT : ['sudo', '-n', ...APT];
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await promisify(execFile)(command, args, { env }).catch((cause: Error) => {
    throw new Error(`libfaketime is not installed, and apt-get did not install it: ${cause.message}`, {
      cause,
    });
  });
  const installed = faketimeLibrary();
  if (installed) return installed;
  throw new Error('libfaketime was installed, and is not where it is looked for; LIBFAKETIME may name it');
}

if (import.meta.main)
  await seeToFaketime().catch((error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  });

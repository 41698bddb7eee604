import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';

const APT = 'apt-get -y -qq -o Dpkg::Use-Pty=0 install --no-install-recommends'.split(' ');
/** Chromium without windows. The tests of the console take 50 s of CPU with it, not 80 s. Debian has this package. */
const SHELL = 'chromium-headless-shell';

/** The path of a browser of the Chromium family, from CHROMIUM or where packages put it; undefined if there is none. */
export function chromium(): string | undefined {
  return [
    process.env.CHROMIUM ?? '',
    `/usr/bin/${SHELL}`,
    '/usr/bin/chromium',
    '/usr/bin/chromium-browser',
    '/usr/bin/google-chrome',
    '/Applications/Chromium.app/Contents/MacOS/Chromium',
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  ].find((path) => existsSync(path));
}

/**
 * Installs Chromium if there is no browser. Never asks for a password. Throws an Error with the reason if it cannot.
 */
async function seeToChromium(): Promise<void> {
  if (chromium() !== undefined) return;
  const [command = '', ...args] = process.getuid?.() === 0 ? APT : ['sudo', '-n', ...APT];
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const install = (name: string) => promisify(execFile)(command, [...args, name], { env });
  await install(SHELL).catch(() => install('chromium'));
}

if (import.meta.main)
  await seeToChromium().catch((error: Error) => {
    console.error(
      `Chromium is not installed, and apt-get did not install it; CHROMIUM can name a browser. ${error.message}`,
    );
    process.exitCode = 1;
  });

#!/usr/bin/env node
import { run } from './run.ts';

const { env, stdin, stdout, stderr } = process;

/** Aborted to end a command that must clean up first. Undefined if the command need not. */
let interrupted: AbortController | undefined;

/**
 * Time within which a second signal counts as the first. The terminal sends Ctrl-C to this process, `npx` passes it on
 * once more if the shell is bash, and other supervisors send SIGTERM.
 */
const SAME_SIGNAL_MS = 300;

/** The first Ctrl-C lets a command clean up, and so does a closed terminal. A second one ends the process. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  interrupted = controller;
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  const abort = () => {
    controller.abort();
    setTimeout(() => {
      for (const signal of signals) process.off(signal, abort);
    }, SAME_SIGNAL_MS).unref();
  };
  for (const signal of signals) process.on(signal, abort);
  return controller.signal;
}

stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  // A reader that closes a pipe early, as in `rtm token list | head`, is no failure.
  const status = code === 'EPIPE' ? 0 : 2;
  if (status !== 0 && !process.exitCode) stderr.write(`${message}\n`);
  if (!interrupted) process.exit(status);
  process.exitCode = status;
  interrupted.abort();
});
// Nobody can be told that stderr is gone.
stderr.on('error', () => {});

const status = await run(process.argv.slice(2), {
  env,
  stdin,
  stdout,
  stderr,
  folder: process.cwd(),
  interruption,
});
process.exitCode ||= status;

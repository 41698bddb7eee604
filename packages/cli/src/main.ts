#!/usr/bin/env node
import { run } from './run.ts';

const { env, stdin, stdout, stderr } = process;

/** Aborted to tell the running command that it must clean up and end. Undefined if the command need not clean up. */
let interrupted: AbortController | undefined;

/**
 * A second signal within this time counts as the same Ctrl-C. One Ctrl-C can lead to two signals to this process: the
 * terminal sends one, and a program that started this one, such as `npx` or a supervisor, sends another.
 */
const SAME_SIGNAL_MS = 300;

/**
 * Returns a signal that is aborted by the first Ctrl-C, or when the terminal closes, so that a command can clean up. A
 * second Ctrl-C ends the process.
 */
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
// If stderr cannot be written, there is nowhere to report this error, so it is ignored.
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

#!/usr/bin/env node
import { run } from './run.ts';

const { env, stdin, stdout, stderr } = process;

/** Aborted to end a command that must clean up first. Undefined if the command need not. */
let interrupted: AbortController | undefined;

/**
 * Time within which a second signal is taken for the same Ctrl-C. For one Ctrl-C, this process can get a signal from
 * the terminal, and another one from `npx` (if the shell is bash) or from a supervisor, which sends SIGTERM.
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
// Without stderr, there is nowhere to report an error.
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

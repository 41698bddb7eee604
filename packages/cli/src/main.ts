#!/usr/bin/env node
import { run } from './run.ts';

const { env, stdin, stdout, stderr } = process;

// If the reader of a pipe closes it early, as in `rtm token list | head`, this is not a failure.
stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 2));

/** The first Ctrl-C lets a command clean up. A second one ends the process. */
function interruption(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());
  return interrupted.signal;
}

process.exitCode = await run(process.argv.slice(2), {
  env,
  stdin,
  stdout,
  stderr,
  folder: process.cwd(),
  interruption,
});

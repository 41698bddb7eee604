#!/usr/bin/env node
import { run } from './run.ts';

const { env, stdin, stdout, stderr } = process;

// `rtm token list | head` is no failure.
stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 2));

const interrupted = new AbortController();
// The first Ctrl-C lets a command clean up, the second ends it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());

process.exitCode = await run(process.argv.slice(2), {
  env,
  stdin,
  stdout,
  stderr,
  folder: process.cwd(),
  signal: interrupted.signal,
});

import type { IncomingMessage } from 'node:http';
import { pino } from 'pino';

/** Maximum time for writing the last lines of the log when the process ends. */
const FLUSH_MS = 1000;

export type Log = pino.Logger;

const destination = pino.destination(1);
// pino's flush at exit never ends if the log's reader hangs. Code that ends the process awaits `logged`
// instead.
destination.flushSync = () => {};

/** Creates a logger that writes JSON lines to standard output. Each line contains `bindings`. */
export function createLog(level: pino.LevelWithSilent, bindings: Record<string, unknown>): Log {
  return pino({ level, base: bindings, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}

/** Returns the message of an error, for a log line that needs no stack trace. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Ends the log. Resolves when all lines are written, or when the reader of the log is gone; never rejects. If the
 * reader hangs for a second, the process is killed, because the blocked write would also block `process.exit`.
 */
export function logged(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), FLUSH_MS);
    destination.once('close', resolve).once('error', () => resolve());
    destination.end();
    destination.write = () => true;
  });
}

/** Returns the first part of a request's path. The rest may contain a token, which must not be logged. */
export function loggedPath({ url = '' }: IncomingMessage): string {
  return /^\/[^/?]*/.exec(url)?.[0] ?? '';
}

import type { IncomingMessage } from 'node:http';
import { pino } from 'pino';

/** How long a process that ends waits for who reads its log. */
const FLUSH_MS = 1000;

export type Log = pino.Logger;
export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

const destination = pino.destination(1);
// pino's own waits for a reader for ever, also where there is none any more. Who ends the process waits for `logged` first.
destination.flushSync = () => {};

/** A logger that writes JSON lines to standard output; `bindings` go on every line. */
export function createLog(level: LogLevel, bindings: Record<string, unknown>): Log {
  return pino({ level, base: bindings, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}

/**
 * The end of the log: resolves when all lines are written, or nobody reads them any more; never rejects. Where a reader hangs,
 * it kills the process after a second: a thread that waits for it would keep `process.exit` waiting too.
 */
export function logged(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), FLUSH_MS);
    destination.once('close', resolve).once('error', () => resolve());
    destination.end();
    destination.write = () => true;
  });
}

/** The beginning of a request's path, as the log may show it: the rest may be a token, and a token may be a credential. */
export function loggedPath({ url = '' }: IncomingMessage): string {
  return /^\/[^/?]*/.exec(url)?.[0] ?? '';
}

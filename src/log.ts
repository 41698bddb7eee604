import { pino } from 'pino';

/** How long an ending process waits for the reader of its log. */
const FLUSH_MS = 1000;

export type Log = pino.Logger;
export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

const destination = pino.destination(1);
// pino's flush at exit waits for ever for a reader that hangs or is gone. Code that ends the process awaits `logged` instead.
destination.flushSync = () => {};

/** Creates a logger that writes JSON lines to standard output, each with `bindings`. */
export function createLog(level: LogLevel, bindings: Record<string, unknown>): Log {
  return pino({ level, base: bindings, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}

/**
 * Ends the log. Resolves when all lines are written or the reader is gone; never rejects. If the reader hangs, this kills the
 * process after a second, because a blocked write would block `process.exit` too.
 */
export function logged(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), FLUSH_MS);
    destination.once('close', resolve).once('error', () => resolve());
    destination.end();
    destination.write = () => true;
  });
}

import type { IncomingMessage } from 'node:http';
import { pino } from 'pino';
import { clock } from './clock.ts';
import { replyBehind, StorageFull, StorageUnavailable } from './errors.ts';

/** Maximum time to write the last lines of the log when the process ends. */
const FLUSH_MS = 1000;

/** Minimum time between two log lines with the same message about a failing Redis, or about unreadable data. */
const FAILING_EVERY_MS = 60_000;

export type Log = pino.Logger;
type LogMethod = NonNullable<NonNullable<pino.LoggerOptions['hooks']>['logMethod']>;

/** Maximum bytes of log lines that a thread keeps while stdout does not take them. pino drops further lines. */
const MAX_WAITING_BYTES = 4_194_304;

// `minLength` is 1, because `flush` does nothing with the default of 0.
const destination = pino.destination({ dest: 1, minLength: 1, maxLength: MAX_WAITING_BYTES });
// A process goes on if its log cannot be written, for example on a full disk. pino's own listener is removed, because
// it throws such an error. After an EPIPE it also makes `end` do nothing, so that `logged` would never resolve.
destination.removeAllListeners('error').on('error', () => {});
// After an error, the destination does not write again until it accepts another line. If its buffer is full, it accepts
// no line, so it would never write again. So at each line that it drops, `flush` makes it write.
destination.on('drop', () => destination.flush());
// Turns off pino's own flush at exit, which would hang if the reader of stdout hangs. `logged` replaces it.
destination.flushSync = () => {};

/** Creates a logger that writes JSON lines to standard output. Each line contains `bindings`. */
export function createLog(level: pino.LevelWithSilent, bindings: Record<string, unknown>): Log {
  const hooks = { logMethod: rarelyFailing() };
  return pino({ level, base: bindings, timestamp: pino.stdTimeFunctions.isoTime, hooks }, destination);
}

/**
 * Returns a hook of pino that keeps repeated lines from filling the log. A line with one of these fields is written at
 * most once a minute for the same message and the same value of the field: `away` (a Redis is away), `full` (a Redis is
 * full), `skipped` (data cannot be read).
 */
export function rarelyFailing(): LogMethod {
  const writtenAtMs = new Map<string, number>();
  return function (args, method) {
    const [about, message] = args as unknown as [Rare | undefined, unknown];
    if (typeof about === 'object' && (about?.away ?? about?.full ?? about?.skipped) !== undefined) {
      const id = `${about.away} ${about.full} ${about.skipped} ${message}`;
      const nowMs = clock.monotonicMs();
      if (nowMs - (writtenAtMs.get(id) ?? Number.NEGATIVE_INFINITY) < FAILING_EVERY_MS) return;
      writtenAtMs.set(id, nowMs);
    }
    method.apply(this, args);
  };
}

type Rare = Partial<Failure> & { skipped?: unknown };

/**
 * What a log line says about a failed call. `away` names a Redis that is away, `full` a Redis that is full.
 */
interface Failure {
  reason: string;
  away?: string;
  full?: string;
}

export function failureOf(error: unknown): Failure {
  const reason = reasonOf(error);
  if (error instanceof StorageFull) return { reason, full: error.redis };
  return error instanceof StorageUnavailable ? { reason, away: error.redis } : { reason };
}

/**
 * Returns the message of an error for the log, without a stack trace and without advice to callers. If Redis itself
 * refused a command, the message contains the words of Redis, such as `No space left on device`.
 */
export function reasonOf(error: unknown): string {
  if (error instanceof StorageUnavailable || error instanceof StorageFull) {
    const { why } = error;
    const reply = replyBehind(error);
    if (!reply) return why;
    // Cuts off the error code, such as MISCONF, with which the message of Redis begins. The bus's own reason `why`
    // contains the code or says what it means.
    return `${why}: ${reply.message.replace(/^\w+ /, '')}`;
  }
  return error instanceof Error ? error.message : String(error);
}

/**
 * Ends the log, just before `process.exit`. Resolves when all lines are written, or when nobody reads stdout any more;
 * never rejects. If the reader of stdout hangs, even `process.exit` would hang, so the process kills itself after a
 * second.
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

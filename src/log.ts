import { pino } from 'pino';

export type Log = pino.Logger;
export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

/** A logger that writes JSON lines to standard output; `bindings` go on every line. */
export function createLog(level: LogLevel, bindings: Record<string, unknown>): Log {
  return pino({ level, base: bindings, timestamp: pino.stdTimeFunctions.isoTime });
}

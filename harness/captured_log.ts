import { pino } from 'pino';
import type { Log } from '../src/log.ts';

export interface CapturedLog {
  log: Log;
  /** Grows as lines are written. */
  lines: Record<string, unknown>[];
  /** True if a line has a message that matches. */
  says: (what: RegExp) => boolean;
}

/** A log whose lines a test can read. */
export function capturedLog(): CapturedLog {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line));
  const says = (what: RegExp) => lines.some(({ msg }) => what.test(String(msg)));
  return { log: pino({ level: 'trace', base: null }, { write }), lines, says };
}

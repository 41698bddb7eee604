import { pino } from 'pino';
import type { Log } from '../../src/log.ts';

/** A log of which the lines can be read: `lines` grows as they are written. */
export function capturedLog(): { log: Log; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line));
  return { log: pino({ level: 'trace', base: null }, { write }), lines };
}

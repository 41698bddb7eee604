import { clock } from '../clock.ts';
import type { Comparison } from './move.ts';

const WIDTH = 40;

/** Interval at which progress is written where it cannot replace the line before. */
const TELL_EVERY_MS = 5000;

/** Returns a function that shows how far the move is: on a terminal in one line. */
export function progressOn(stream: NodeJS.WriteStream): (done: number, total: number) => void {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  return (done, total) => {
    if (stream.isTTY) stream.write(`\r${progressLine(done, total)}`);
    else if (clock.monotonicMs() - toldAtMs > TELL_EVERY_MS) {
      toldAtMs = clock.monotonicMs();
      stream.write(`${progressLine(done, total)}\n`);
    }
  };
}

function progressLine(done: number, total: number): string {
  const part = Math.min(1, total === 0 ? 1 : done / total);
  const bar = '#'.repeat(Math.round(part * WIDTH)).padEnd(WIDTH, '.');
  return `[${bar}] ${Math.floor(part * 100)} %, ${Math.min(done, total)} of ${total} keys`;
}

/** Returns a table of what was moved. What differs has a mark. */
export function comparisonTable(comparison: Comparison): string {
  const rows = comparison.map(({ what, source, target }) => [
    what,
    String(source),
    String(target),
    source === target ? '' : '  <-- differs',
  ]);
  const lines = [['', 'source', 'target', ''], ...rows].map(
    ([what = '', source = '', target = '', note = '']) =>
      `${what.padEnd(26)}${source.padStart(12)}${target.padStart(12)}${note}`,
  );
  return lines.join('\n');
}

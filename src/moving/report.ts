import { atMostEvery } from '../clock.ts';
import { type Comparison, isWhole } from './move.ts';
import type { Side } from './side.ts';

const WIDTH = 40;

/** Minimum time between two lines of progress if the output is not a terminal. */
const TELL_EVERY_MS = 5000;

/** Returns a function that shows the progress of a move. On a terminal, each report replaces the previous one. */
export function progressOn(stream: NodeJS.WriteStream): (done: number, total: number) => void {
  const writeLine = (done: number, total: number) => stream.write(`${progressLine(done, total)}\n`);
  const tell = atMostEvery(TELL_EVERY_MS, writeLine, Number.NEGATIVE_INFINITY);
  return (done, total) => {
    if (stream.isTTY) stream.write(`\r${progressLine(done, total)}`);
    else tell(done, total);
  };
}

function progressLine(done: number, total: number): string {
  const part = Math.min(1, total === 0 ? 1 : done / total);
  const bar = '#'.repeat(Math.round(part * WIDTH)).padEnd(WIDTH, '.');
  return `[${bar}] ${Math.floor(part * 100)} %, ${Math.min(done, total)} of ${total} keys`;
}

/**
 * Returns a table with the number of entries of each kind, such as topics, in the source and in the target. An arrow
 * marks numbers that differ.
 */
export function reportOf(comparison: Comparison, { partitions, name }: Side): string {
  const count = partitions.all.length;
  const rows = comparison.map(({ what, source, target }) =>
    rowOf(what, String(source), String(target), source === target ? '' : '  <-- differs'),
  );
  const next = isWhole(comparison)
    ? `Moved to ${count} partitions in ${name}. Run the bus there with ROUTEMASTER_PARTITIONS=${count}.`
    : 'The target differs from the source, so no process starts on it. Run the same command again.';
  return ['', rowOf('', 'source', 'target'), ...rows, '', next].join('\n');
}

function rowOf(what: string, source: string, target: string, note = ''): string {
  return what.padEnd(26) + source.padStart(12) + target.padStart(12) + note;
}

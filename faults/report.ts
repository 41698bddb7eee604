import { type Bar, columns } from '../harness/measuring/report.ts';
import type { Result } from './trial.ts';

const HEAD = [
  'scenario',
  'accepted',
  'lost',
  'duplicated',
  'out of order',
  'recovery',
  'partitions',
  'seed',
  'ok',
];

/** Returns the results as a table, and below it every bar with the value that was found; missed bars are marked. */
export function forPeople(results: readonly Result[]): string {
  const lines = columns([HEAD, ...results.map(cells)]);
  const judged = results.flatMap(({ scenario, seed, bars }) =>
    bars.map((bar) => `${scenario}, seed ${seed}: ${bar.ok ? 'met' : 'MISSED'}: ${saying(bar)}`),
  );
  return [...lines, '', ...judged].join('\n');
}

function cells(result: Result): string[] {
  const { scenario, accepted, lost, duplicated, outOfOrder, recoveryMs, partitions, ok, seed } = result;
  return [
    scenario,
    ...[accepted, lost, duplicated].map((count) => count.toLocaleString('en')),
    outOfOrder?.toLocaleString('en') ?? '–',
    recoveryMs === undefined ? '–' : `${(recoveryMs / 1000).toFixed(1)} s`,
    String(partitions ?? '–'),
    String(seed),
    ok ? 'yes' : 'NO',
  ];
}

function saying({ text, found }: Bar): string {
  return found ? `${text} (${found})` : text;
}

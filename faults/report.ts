import type { Bar } from '../harness/bar.ts';
import { columns } from '../harness/columns.ts';
import type { Scenario } from './scenario.ts';
import type { Result } from './trial.ts';

const HEAD = ['scenario', 'accepted', 'lost', 'duplicated', 'out of order', 'recovery', 'seed', 'ok', 'bars'];

/** The results as a table, with what was missed below it. */
export function forPeople(results: readonly Result[]): string {
  const lines = columns([HEAD.slice(0, -1), ...results.map((result) => cells(result).slice(0, -1))]);
  const missed = results.flatMap(({ scenario, seed, bars }) =>
    bars.filter(({ ok }) => !ok).map((bar) => `${scenario}, seed ${seed}: not met: ${saying(bar)}`),
  );
  return [...lines, ...(missed.length > 0 ? ['', ...missed] : [])].join('\n');
}

/** The results as a document. */
export function forDocument(
  results: readonly Result[],
  { machine, command, scenarios }: { machine: string; command: string; scenarios: readonly Scenario[] },
): string {
  const rows = results.map((result) =>
    cells(result).map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')),
  );
  const table = [HEAD, HEAD.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`);
  return `# What faults do to the bus

Written by \`${command}\`. The machine: ${machine}.

An event is *accepted* when its publisher got a 2xx, *lost* when a subscriber's receiver never took it, *duplicated* each time
that a receiver took it again, and *out of order* when it came after one that was accepted later (of subscribers that asked
for order). *Recovery* is the longest that it took, after a fault, to be as before. After each scenario everything is
delivered, no process has failed, Redis is checked key by key, and a sweep finds nothing to repair.

${table.join('\n')}

The scenarios:

${scenarios.map(({ name, title }) => `- \`${name}\`: ${title}`).join('\n')}
`;
}

function cells(result: Result): string[] {
  const { scenario, accepted, lost, duplicated, outOfOrder, recoveryMs, bars, ok, seed } = result;
  return [
    scenario,
    ...[accepted, lost, duplicated].map((count) => count.toLocaleString('en')),
    outOfOrder?.toLocaleString('en') ?? '–',
    recoveryMs === undefined ? '–' : `${(recoveryMs / 1000).toFixed(1)} s`,
    String(seed),
    ok ? 'yes' : 'NO',
    bars.map((bar) => (bar.ok ? bar.text : `**${saying(bar)}**`)).join('; '),
  ];
}

function saying({ text, found }: Bar): string {
  return found ? `${text} (${found})` : text;
}

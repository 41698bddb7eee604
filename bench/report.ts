import { METRICS, type Metric, type Row, ratio, summary, type Table } from './result.ts';
import type { Spread } from './statistics.ts';

const ALL = Object.keys(METRICS) as Metric[];

/** A table as text, with the ratios to its floors below it. */
export function forPeople(table: Table): string {
  const shown = ALL.filter((metric) => table.rows.some((row) => summary(row, metric)));
  const head = ['', ...shown.map((metric) => METRICS[metric])];
  const lines = table.rows.map((row) => [row.name, ...shown.map((metric) => cell(summary(row, metric)))]);
  const ratios = comparisons(table).map(({ row, floor }) => [
    `${row.name} ÷ ${floor.name}`,
    ...shown.map((metric) => cell(ratio(row, floor, metric), '×')),
  ]);
  return [
    table.title,
    ...table.notes.map((note) => `  ${note}`),
    '',
    ...columns([head, ...lines, [], ...ratios]),
  ].join('\n');
}

/** A table as data: every metric with its median, least, greatest and all its values. */
export function forMachines(table: Table) {
  const rows = table.rows.map((row) => ({
    name: row.name,
    metrics: onlyKnown((metric) => {
      const its = summary(row, metric);
      return its && { ...its, values: row.repetitions.map((figures) => figures[metric]) };
    }),
  }));
  const ratios = comparisons(table).map(({ row, floor }) => ({
    name: row.name,
    floor: floor.name,
    metrics: onlyKnown((metric) => ratio(row, floor, metric)),
  }));
  return { title: table.title, notes: table.notes, rows, ratios };
}

/** Each row with each of its floors. */
function comparisons({ rows }: Table): { row: Row; floor: Row }[] {
  return rows.flatMap((row) =>
    (row.floors ?? []).flatMap((name) =>
      rows.filter((other) => other.name === name).map((floor) => ({ row, floor })),
    ),
  );
}

function onlyKnown<T>(of: (metric: Metric) => T | undefined): Partial<Record<Metric, T>> {
  return Object.fromEntries(
    ALL.flatMap((metric) => (of(metric) === undefined ? [] : [[metric, of(metric)]])),
  );
}

function cell(spread: Spread | undefined, unit = ''): string {
  if (!spread) return '–';
  const { median, min, max } = spread;
  return `${figure(median)}${unit} [${figure(min)}–${figure(max)}]`;
}

/** Three significant digits, and no fractions of what is beyond a hundred. */
function figure(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value.toFixed(value >= 10 ? 1 : 2);
}

function columns(lines: string[][]): string[] {
  const widths = (lines[0] ?? []).map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((text, at) => (at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0)))
      .join('   ')
      .trimEnd(),
  );
}

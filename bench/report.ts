import { columns } from '../harness/measuring/report.ts';
import type { Spread } from '../harness/measuring/statistics.ts';
import type { Measured } from './part.ts';
import { METRICS, type Metric, type Row, ratio, summary, type Table } from './result.ts';
import type { Verdict } from './targets.ts';

const ALL = Object.keys(METRICS) as Metric[];

/** Returns a table as text; below it, the ratios to its floors and the verdicts on its targets. */
export function forPeople({ table, verdicts }: Measured): string {
  const { head, rows, ratios } = cellsOf(table);
  return [
    table.title,
    ...table.notes.map((note) => `  ${note}`),
    '',
    ...columns([head, ...rows, ...(ratios.length > 0 ? [[], ...ratios] : [])]),
    ...(verdicts.length > 0 ? ['', ...verdicts.map((each) => `  ${judgement(each)}`)] : []),
  ].join('\n');
}

/** Returns a table as data: each metric with its median, min, max and all values. */
export function forMachines({ table, verdicts }: Measured) {
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
  const targets = verdicts.map(({ text, met, found }) => ({
    text,
    met,
    found: found.map(({ bar, spread }) => ({ ...bar, ...spread })),
  }));
  return { title: table.title, notes: table.notes, rows, ratios, targets };
}

/** Returns a verdict as one line. */
export function judgement({ text, met, found }: Verdict): string {
  const figures = found.map(
    ({ bar, spread }) => `${cell(spread, bar.floor ? '×' : '')} ${METRICS[bar.metric]}`,
  );
  return `${met ? 'met' : 'MISSED'}: ${text} (${figures.join('; ')})`;
}

/** Returns the cells of a table. Columns for which no row has a value are left out. */
function cellsOf(table: Table): { head: string[]; rows: string[][]; ratios: string[][] } {
  const shown = ALL.filter((metric) => table.rows.some((row) => summary(row, metric)));
  return {
    head: ['', ...shown.map((metric) => METRICS[metric])],
    rows: table.rows.map((row) => [row.name, ...shown.map((metric) => cell(summary(row, metric)))]),
    ratios: comparisons(table).map(({ row, floor }) => [
      `${row.name} ÷ ${floor.name}`,
      ...shown.map((metric) => cell(ratio(row, floor, metric), '×')),
    ]),
  };
}

/** Pairs each row with each of its floors. */
function comparisons({ rows }: Table): { row: Row; floor: Row }[] {
  return rows.flatMap((row) =>
    row.floors.flatMap((name) =>
      rows.filter((other) => other.name === name).map((floor) => ({ row, floor })),
    ),
  );
}

function onlyKnown<T>(of: (metric: Metric) => T | undefined): Partial<Record<Metric, T>> {
  return Object.fromEntries(
    ALL.flatMap((metric) => {
      const its = of(metric);
      return its === undefined ? [] : [[metric, its]];
    }),
  );
}

function cell(spread: Spread | undefined, unit = ''): string {
  if (!spread) return '–';
  const { median, min, max } = spread;
  if (min === max) return `${figure(median)}${unit}`;
  return `${figure(median)}${unit} [${figure(min)}–${figure(max)}]`;
}

/** Returns the value with three significant digits, and above a hundred without a fraction. */
function figure(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

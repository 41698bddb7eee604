import type { Spread } from '../harness/measuring/statistics.ts';
import { type Metric, ratio, summary, type Table } from './result.ts';

/** A limit of a median: of the row's own figure, or of its ratio to one of the row's floors. */
interface Bar {
  row: string;
  floor?: string;
  metric: Metric;
  max?: number;
  min?: number;
}

/** A claim about a table. It is met when one of its bars is met. */
export interface Target {
  text: string;
  bars: Bar[];
}

export interface Verdict {
  text: string;
  met: boolean;
  found: { bar: Bar; spread: Spread }[];
}

/** Judges a table; targets whose rows were not measured are left out. */
export function judge(table: Table, targets: readonly Target[]): Verdict[] {
  return targets.flatMap(({ text, bars }) => {
    const found = bars.flatMap((bar) => {
      const spread = measured(table, bar);
      return spread ? [{ bar, spread }] : [];
    });
    if (found.length === 0) return [];
    return [{ text, met: found.some(({ bar, spread }) => holds(bar, spread.median)), found }];
  });
}

function measured(table: Table, { row: name, floor: under, metric }: Bar): Spread | undefined {
  const row = table.rows.find((each) => each.name === name);
  if (!row) return undefined;
  if (under === undefined) return summary(row, metric);
  const floor = table.rows.find((each) => each.name === under);
  return floor && ratio(row, floor, metric);
}

function holds({ max, min }: Bar, value: number): boolean {
  return value <= (max ?? Number.POSITIVE_INFINITY) && value >= (min ?? Number.NEGATIVE_INFINITY);
}

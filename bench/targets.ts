import type { Spread } from '../harness/statistics.ts';
import { type Metric, ratio, summary, type Table } from './result.ts';

/** What a median must reach: of a row itself, or in multiples of one of its floors. */
export interface Bar {
  row: string;
  floor?: string;
  metric: Metric;
  most?: number;
  least?: number;
}

/** Met when any of its bars is. */
export interface Target {
  text: string;
  bars: Bar[];
}

export interface Verdict {
  text: string;
  met: boolean;
  found: { bar: Bar; spread: Spread }[];
}

/** Judges what was measured; targets of which nothing was measured are left out. */
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

function holds({ most, least }: Bar, value: number): boolean {
  return value <= (most ?? Number.POSITIVE_INFINITY) && value >= (least ?? Number.NEGATIVE_INFINITY);
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plots } from '../../src/console/plots.ts';
import type { HistoryReport } from '../../src/metrics/history_api.ts';

/** Returns what the page says above the plot of a latency with these values. */
function said(values: (number | null)[]): string | undefined {
  const metrics = { latency: { unit: 'ms', values } };
  const history = { subject: 'bus', range: '1h', start: 0, step: 10_000, metrics } as HistoryReport;
  return /<b>mean latency<\/b> ([^<]*)/.exec(plots(history, '/console').text)?.[1];
}

test('a plot says what is so now, and nothing old as if it were so now', () => {
  assert.equal(said([null, 90_000, 40, null]), '40 ms, at most 1 min');
  assert.equal(said([90_000, 40, null, null, null]), 'none lately, at most 1 min');
  assert.equal(said([null, null]), 'nothing yet');
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { complaintsOf, type State } from '../../src/console/overview_page.ts';
import type { Partition } from '../../src/store/partition.ts';

const MINUTE_MS = 60_000;
/** Figures of a bus where everything is wrong. */
const FIGURES: NonNullable<State['figures']> = {
  ...{ published: 0, delivered: 0, failed: 0, queued: 5, oldestSeconds: 600, memory: 95 },
  ...{ failing: 1, paused: 1, subscribers: 3, deadLetters: 2, latencies: 0, latencyMs: 0 },
};

/** Returns what the overview may say, by the table of the document. */
function complaintsInDocument(): string[] {
  const text = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8');
  const [, table = ''] = /\| it says \|.*\n\| --- .*\n((?:\|.*\n)+)/.exec(text) ?? [];
  return table
    .trim()
    .split('\n')
    .map((row) => row.split('|')[1]?.trim() ?? '');
}

test('operating.md says what to do about each complaint of the overview', () => {
  const missing = [3, 7].map((index) => ({ index }) as Partition);
  const memory = { used: 95, max: 100, highMark: 90, lowMark: 80, unfreed: 0 };
  const complaints = complaintsOf({ figures: FIGURES, ageMs: 5 * MINUTE_MS, memory, missing });
  const said = complaints.map(({ text }) => text.toLowerCase());
  const told = complaintsInDocument();
  for (const row of told) {
    const words = row.split(' ').filter((word) => word !== 'a');
    assert.ok(
      said.some((text) => words.every((word) => text.includes(word))),
      `the overview says that ${row}`,
    );
  }
  assert.equal(told.length, said.length);
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { marks, place } from '../../bench/document.ts';
import { measureInTurn } from '../../bench/part.ts';
import { PARTS } from '../../bench/parts.ts';
import { forDocument, forMachines, forPeople } from '../../bench/report.ts';
import { readOptions, UsageError } from '../../harness/options.ts';

const NAMES = PARTS.map(({ name }) => name);

/** What is measured of two rows, run by run. */
function plan(bus: number[], floor: number[]) {
  const taken: string[] = [];
  const next = (row: string, values: number[]) => async () => {
    taken.push(row);
    return { webMicros: values.shift() ?? Number.NaN };
  };
  const cases = [
    { row: 'floor', measure: next('floor', floor) },
    { row: 'bus', floors: ['floor'], measure: next('bus', bus) },
    { row: 'other', measure: next('other', [1, 1, 1]) },
  ];
  return { taken, plan: { title: 'publish', notes: ['in a test'], cases } };
}

const all = { runs: 3, only: undefined };

test('rows are measured in turn, and ratios taken run by run', async () => {
  const { taken, plan: made } = plan([30, 11, 10], [10, 10, 5]);
  const [measured] = await measureInTurn('publish', [made], all);
  assert.deepEqual(taken.slice(0, 6), ['floor', 'bus', 'other', 'floor', 'bus', 'other']);
  const { rows, ratios } = forMachines(measured as NonNullable<typeof measured>);
  assert.deepEqual(rows[1]?.metrics.webMicros, { median: 11, min: 10, max: 30, values: [30, 11, 10] });
  assert.deepEqual(ratios[0]?.metrics.webMicros, { median: 2, min: 1.1, max: 3 });
});

test('a target is met when the median reaches any of its bars, and says what was found', async () => {
  const { plan: made } = plan([30, 11, 10], [10, 10, 5]);
  const bar = { row: 'bus', floor: 'floor', metric: 'webMicros' as const };
  const targets = [
    { text: 'reached', bars: [{ ...bar, most: 2 }] },
    { text: 'not reached', bars: [{ ...bar, most: 1.99 }] },
    {
      text: 'either',
      bars: [
        { ...bar, most: 1 },
        { ...bar, least: 2 },
      ],
    },
    { text: 'of a row that was not measured', bars: [{ ...bar, row: 'nobody', most: 2 }] },
  ];
  const [measured] = await measureInTurn('publish', [{ ...made, targets }], all);
  assert.ok(measured);
  assert.deepEqual(
    measured.verdicts.map(({ text, met }) => [text, met]),
    [
      ['reached', true],
      ['not reached', false],
      ['either', true],
    ],
  );
  assert.match(forPeople(measured), /^ {2}MISSED: not reached \(2\.00× \[1\.10–3\.00\] web µs\/event\)$/m);
  assert.match(forDocument(measured), /^\| bus ÷ floor \| 2\.00× \[1\.10–3\.00\] \|$/m);
});

test('--only keeps the rows that have the text, and their floors', async () => {
  const { plan: made } = plan([1], [1]);
  const [measured] = await measureInTurn('publish', [made], { runs: 1, only: 'publish: bus' });
  assert.deepEqual(
    measured?.table.rows.map(({ name }) => name),
    ['floor', 'bus'],
  );
});

test('the command line', () => {
  assert.deepEqual(readOptions([], NAMES).parts, NAMES);
  assert.deepEqual(readOptions(['--part', 'idle', '--part', 'publish'], NAMES).parts, ['publish', 'idle']);
  assert.deepEqual([readOptions([], NAMES).runs, readOptions(['--quick'], NAMES).runs], [3, 1]);
  assert.equal(readOptions(['--json', '--quick'], NAMES).json, '-');
  assert.match(readOptions(['--json', 'figures.json'], NAMES).json ?? '', /\/figures\.json$/);
  for (const args of [['--part', 'nothing'], ['--runs', '0'], ['--what']])
    assert.throws(() => readOptions(args, NAMES), UsageError);
});

test('what is put into its place in a document leaves the rest as it is', () => {
  const document = `before\n${marks('idle').join('\nold\n')}\nafter\n`;
  const [begin, end] = marks('idle');
  assert.equal(place(document, 'idle', 'new'), `before\n${begin}\n\nnew\n\n${end}\nafter\n`);
  assert.throws(() => place(document, 'publish', 'new'), /no place for publish/);
});

test('docs/performance.md has a place for each part, and for the profiles that it is to have', () => {
  const document = readFileSync('docs/performance.md', 'utf8');
  for (const name of [...NAMES, 'profile of publish', 'profile of deliver']) {
    const [begin, end] = marks(name).map((mark) => document.indexOf(mark));
    assert.ok(begin !== undefined && end !== undefined && begin >= 0 && end > begin, name);
  }
});

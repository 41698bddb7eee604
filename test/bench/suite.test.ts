import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { readOptions } from '../../bench/options.ts';
import { measureInTurn } from '../../bench/part.ts';
import { PARTS } from '../../bench/parts.ts';
import { forMachines, forPeople } from '../../bench/report.ts';
import { UsageError } from '../../harness/measuring/command_line.ts';
import { root } from '../../harness/processes/command.ts';

const NAMES = PARTS.map(({ name }) => name);

/**
 * Returns a plan of two rows with these figures, run by run, and of a third row. `taken`: the order of measurements.
 */
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

test('a target is met when the median reaches any of its bars, and reports the figure', async () => {
  const { plan: made } = plan([30, 11, 10], [10, 10, 5]);
  const bar = { row: 'bus', floor: 'floor', metric: 'webMicros' as const };
  const targets = [
    { text: 'reached', bars: [{ ...bar, max: 2 }] },
    { text: 'not reached', bars: [{ ...bar, max: 1.99 }] },
    {
      text: 'either',
      bars: [
        { ...bar, max: 1 },
        { ...bar, min: 2 },
      ],
    },
    { text: 'of a row that was not measured', bars: [{ ...bar, row: 'nobody', max: 2 }] },
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
  assert.equal(readOptions(['--json', '-', '--quick'], NAMES).json, '-');
  assert.match(readOptions(['--json', 'figures.json'], NAMES).json ?? '', /\/figures\.json$/);
  for (const args of [['--part', 'nothing'], ['--runs', '0'], ['--what'], ['idle']])
    assert.throws(() => readOptions(args, NAMES), UsageError);
});

interface Report {
  tables: {
    part: string;
    rows: { name: string; metrics: Record<string, { median: number; values: number[] }> }[];
    targets: { met: boolean }[];
  }[];
}

test('a quick run of two parts gives a figure for each metric of each row, and judges their targets', async () => {
  const args = ['bench/run.ts', '--quick', '--part', 'bulk,client', '--json', '-'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  const { tables } = JSON.parse(stdout) as Report;
  assert.deepEqual(
    tables.map(({ part }) => part),
    ['bulk', 'client'],
  );
  for (const { name, metrics } of tables.flatMap(({ rows }) => rows)) {
    assert.ok(Object.keys(metrics).length > 0, `${name} was measured`);
    for (const [metric, { median, values }] of Object.entries(metrics)) {
      assert.ok(Number.isFinite(median), `${name}: ${metric} is a number`);
      assert.equal(values.length, 1);
    }
  }
  assert.ok(tables.every(({ targets }) => targets.length > 0));
});

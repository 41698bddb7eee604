import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';
import { PARTS } from '../../bench/parts.ts';
import { rivalsAreInstalled } from '../../bench/rival.ts';

interface Report {
  machine: { cores: number };
  tables: {
    part: string;
    rows: { name: string; metrics: Record<string, { median: number; values: number[] }> }[];
    targets: { text: string; met: boolean }[];
  }[];
}

/** Parts that the issue sets no target for. */
const UNJUDGED = ['rivals'];

async function bench(...args: string[]): Promise<Report> {
  const { stdout } = await promisify(execFile)(process.execPath, ['bench/run.ts', ...args]);
  return JSON.parse(stdout) as Report;
}

suite('npm run bench', { concurrency: 2 }, () => {
  for (const { name, title } of PARTS) {
    const skip = name === 'rivals' && !rivalsAreInstalled() && 'npm run bench -- --part rivals installs them';
    test(`${name}: ${title}`, { skip }, async () => {
      const { machine, tables } = await bench('--quick', '--part', name, '--json');
      assert.ok(machine.cores > 0);
      assert.ok(tables.length > 0 && tables.every(({ part }) => part === name));
      for (const row of tables.flatMap(({ rows }) => rows)) {
        assert.ok(Object.keys(row.metrics).length > 0, `${row.name} was measured`);
        for (const [metric, { median, values }] of Object.entries(row.metrics)) {
          assert.ok(Number.isFinite(median), `${row.name}: ${metric} is a number`);
          assert.equal(values.length, 1);
        }
      }
      const judged = tables.flatMap(({ targets }) => targets);
      assert.equal(judged.length > 0, !UNJUDGED.includes(name), 'its targets are judged');
    });
  }
});

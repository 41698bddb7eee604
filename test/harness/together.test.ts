import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../../harness/processes/command.ts';

test('the files of a folder run together, each with its own hooks, and a failed one is named', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'routemaster-together-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const write = (name: string, lines: string[]) => writeFileSync(join(dir, name), lines.join('\n'));
  mkdirSync(join(dir, 'inner'));
  write('package.json', ['{ "type": "module" }']);
  write('together.ts', [
    `import { together } from '${root}/harness/together.ts';`,
    'together(import.meta.dirname);',
  ]);
  write('counting.ts', ['export const count = { hooks: 0 };']);
  write('one.test.ts', [
    "import { beforeEach, test } from 'node:test';",
    "import { count } from './counting.ts';",
    'beforeEach(() => void count.hooks++);',
    "test('first', () => {});",
    "test('second', () => {});",
  ]);
  write('inner/other.test.ts', [
    "import assert from 'node:assert/strict';",
    "import { test } from 'node:test';",
    "import { count } from '../counting.ts';",
    "test('comes before, as its path does, and is without hooks', () => assert.equal(count.hooks, 0));",
  ]);
  write('two.test.ts', [
    "import assert from 'node:assert/strict';",
    "import { test } from 'node:test';",
    "import { count } from './counting.ts';",
    "test('fails', () => assert.equal(count.hooks, 3));",
  ]);
  const list = join(dir, 'failed.txt');
  const reporters = [
    ...['--test-reporter=spec', '--test-reporter-destination=stdout'],
    ...[`--test-reporter=${root}/harness/failed_files.ts`, `--test-reporter-destination=${list}`],
  ];
  const { stdout } = spawnSync(process.execPath, ['--test', ...reporters, 'together.ts'], {
    cwd: dir,
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  });
  assert.match(stdout, /✔ inner\/other\.test\.ts/);
  assert.match(stdout, /✖ two\.test\.ts/);
  assert.match(stdout, /2 !== 3/, 'the hook ran before the tests of its file alone');
  assert.match(stdout, /tests 4\n/);
  assert.equal(readFileSync(list, 'utf8'), 'two.test.ts\n');
});

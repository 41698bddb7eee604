import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PrintingProcess, root } from '../../harness/processes/command.ts';

for (const [what, file] of [
  ['a Redis', 'test/packages/receiver/stores.test.ts'],
  ['a web process', 'test/records/audit.test.ts'],
] as const)
  test(`a file of tests with ${what} ends if a name pattern leaves out all of them`, {
    timeout: 60_000,
  }, async (t) => {
    const args = ['--test-name-pattern=^none of its tests$', file];
    const run = new PrintingProcess(process.execPath, args, { cwd: root, env: process.env });
    t.after(() => run.kill());
    assert.equal(await run.exitCode, 0, run.output);
  });

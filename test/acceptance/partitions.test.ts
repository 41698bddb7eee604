import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PrintingProcess, root } from '../../harness/processes/command.ts';

/**
 * The tests to run again with four partitions. Each of their tests ends with a check of every partition, and of the
 * data that must agree between partitions. `ROUTEMASTER_PARTITIONS=4` runs other files of test/acceptance/ in this way,
 * except files that look into Redis themselves. Tests that kill are left out: the fault scenario `outbox-kill` does
 * that. `npm run acceptance-cluster` runs some with 16 partitions on a cluster.
 */
const FILES = ['test/acceptance/joins.ts', 'test/acceptance/on_two_webs_bus.test.ts'];

test('the bus works with four partitions', async (t) => {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const run = new PrintingProcess(
    process.execPath,
    ['--test', '--test-concurrency=2', '--test-skip-pattern=killed', ...FILES],
    {
      cwd: root,
      env: { ...env, ROUTEMASTER_PARTITIONS: '4' },
    },
  );
  t.after(() => run.kill());
  assert.equal(await run.exitCode, 0, run.output);
  assert.match(run.output, /pass [1-9]/);
});

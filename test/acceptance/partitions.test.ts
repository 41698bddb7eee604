import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PrintingProcess, root } from '../../harness/processes/command.ts';

/**
 * The tests to run again with four partitions. Each of their tests ends with a check of every partition, and of the
 * data that must agree between partitions. `ROUTEMASTER_PARTITIONS=4` runs other files of test/acceptance/ in this way,
 * except files that look into Redis themselves. `npm run acceptance-cluster` runs some with 16 partitions on a cluster.
 */
const FILES = ['test/acceptance/joins.ts', 'test/acceptance/on_two_webs_bus.test.ts'];

/**
 * Tests that kill, which the fault scenario `outbox-kill` does, and those of how web processes are replaced and
 * stopped, which partitions do not change.
 */
const LEFT_OUT = '--test-skip-pattern=killed|cannot be replaced|stops under load';

test('the bus works with four partitions', async (t) => {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const run = new PrintingProcess(process.execPath, ['--test', '--test-concurrency=2', LEFT_OUT, ...FILES], {
    cwd: root,
    env: { ...env, ROUTEMASTER_PARTITIONS: '4' },
  });
  t.after(() => run.kill());
  assert.equal(await run.exitCode, 0, run.output);
  assert.match(run.output, /pass [1-9]/);
});

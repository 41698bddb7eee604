import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PrintingProcess, root } from '../../harness/processes/command.ts';

/**
 * Together these publish, deliver, unsubscribe, fire triggers, count joins and kill workers. Each test ends with a check of
 * every partition, and of what partitions know of each other. `ROUTEMASTER_PARTITIONS=4` runs any file of
 * test/acceptance/ so; those that look into Redis themselves need one partition.
 */
const FILES = ['acceptance/joins', 'acceptance/unsubscribing'];

test('the bus works with four partitions', async (t) => {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const files = FILES.map((name) => `test/${name}.test.ts`);
  const run = new PrintingProcess(process.execPath, ['--test', '--test-concurrency=2', ...files], {
    cwd: root,
    env: { ...env, ROUTEMASTER_PARTITIONS: '4' },
  });
  t.after(() => run.kill());
  assert.equal(await run.exitCode, 0, run.output);
  assert.match(run.output, /pass [1-9]/);
});

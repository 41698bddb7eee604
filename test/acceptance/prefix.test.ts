import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PrintingProcess, root } from '../../harness/processes/command.ts';

/**
 * With partitions.test.ts, whose partitions have prefixes too, these use every folder of src/ that has keys. Each test ends
 * with a check that no key is outside the prefix. Any test of test/acceptance/ can be run with ROUTEMASTER_REDIS_PREFIX;
 * all of them would take five times as long.
 */
const FILES = ['acceptance/dead_letters', 'maintenance/delayed_drop'];

test('the bus works with a prefix of its keys and channels', async (t) => {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const files = FILES.map((name) => `test/${name}.test.ts`);
  const run = new PrintingProcess(process.execPath, ['--test', '--test-concurrency=2', ...files], {
    cwd: root,
    env: { ...env, ROUTEMASTER_REDIS_PREFIX: '{1}:' },
  });
  t.after(() => run.kill());
  assert.equal(await run.exitCode, 0, run.output);
  assert.match(run.output, /pass [1-9]/);
});

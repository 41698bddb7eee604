import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseProcfile } from '../../src/local/procfile.ts';
import { root } from '../support/command.ts';

test('the Procfile runs web and worker', () => {
  assert.deepEqual(parseProcfile(readFileSync(join(root, 'Procfile'), 'utf8')), [
    { name: 'web', command: 'node src/web.ts' },
    { name: 'worker', command: 'node src/worker.ts' },
  ]);
});

test('comments and empty lines are skipped, any other line is refused', () => {
  assert.deepEqual(parseProcfile('# a comment\n\n a: b c\r\n'), [{ name: 'a', command: 'b c' }]);
  assert.throws(() => parseProcfile('web node'), /web node/);
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseProcfile } from '../../harness/local/procfile.ts';
import { root } from '../../harness/processes/command.ts';

const read = (file: string) => readFileSync(join(root, file), 'utf8');
const inList = (command: string) =>
  `[${command
    .split(' ')
    .map((word) => `"${word}"`)
    .join(', ')}]`;
const lines = parseProcfile(read('Procfile'));

test('the Procfile runs web and worker', () => {
  assert.deepEqual(lines, [
    { name: 'web', command: 'node --max-semi-space-size=32 --no-allocation-site-pretenuring src/web.ts' },
    { name: 'worker', command: 'node --max-semi-space-size=16 --initial-old-space-size=96 src/worker.ts' },
  ]);
});

test('containers run what the Procfile does', () => {
  const compose = read('docker-compose.yml');
  for (const { command } of lines) assert.ok(compose.includes(`command: ${inList(command)}`), command);
  assert.ok(read('Dockerfile').includes(`CMD ${inList(lines[0]?.command ?? '')}`));
});

test('comments and empty lines are skipped, any other line is refused', () => {
  assert.deepEqual(parseProcfile('# a comment\n\n a: b c\r\n'), [{ name: 'a', command: 'b c' }]);
  assert.throws(() => parseProcfile('web node'), /web node/);
});

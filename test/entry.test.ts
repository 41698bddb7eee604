import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { root } from '../harness/processes/command.ts';

const OLDER =
  'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.1.0"}})';

/** Returns the path of a Node before 24 that is on PATH, if there is one. */
function olderNode(): string | undefined {
  return process.env.PATH?.split(delimiter)
    .map((dir) => join(dir, 'node'))
    .find((node) => {
      try {
        return (
          Number.parseInt(execFileSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' }), 10) < 24
        );
      } catch {
        return false;
      }
    });
}

function assertSaysWhichNode(node: string, args: string[], script: string): void {
  const { status, stdout, stderr } = spawnSync(node, [...args, script], { cwd: root, encoding: 'utf8' });
  assert.match(stderr, /^Routemaster needs Node 24 or later; this is v\d+\.\d+\.\d+\. .*\n$/);
  assert.ok(stderr.includes(`node_modules/.bin/node ${script}`));
  assert.deepEqual([status, stdout], [78, '']);
}

for (const script of ['src/web.ts', 'src/worker.ts']) {
  test(`${script} says which Node is needed when Node says that it is older`, () => {
    assertSaysWhichNode(process.execPath, ['--import', OLDER], script);
  });

  test(`${script} says which Node is needed on an older Node of this machine`, (t) => {
    const node = olderNode();
    if (node === undefined) return t.skip('there is none');
    assertSaysWhichNode(node, [], script);
  });
}

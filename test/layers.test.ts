import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { root } from '../harness/processes/command.ts';

/**
 * Checks a project that has only these files by the rules for layers. Resolves with the output of dependency-cruiser.
 */
async function cruise(files: Record<string, string>): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'routemaster-layers-'));
  try {
    for (const name of ['.dependency-cruiser.cjs', 'package.json'])
      await cp(join(root, name), join(dir, name));
    await symlink(join(root, 'node_modules'), join(dir, 'node_modules'));
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(dir, name)), { recursive: true });
      await writeFile(join(dir, name), text);
    }
    const depcruise = join(root, 'node_modules', '.bin', 'depcruise');
    const folders = [...new Set(Object.keys(files).map((name) => name.split('/')[0] ?? ''))];
    return await new Promise((resolve) => {
      execFile(depcruise, folders, { cwd: dir }, (_error, stdout, stderr) => resolve(stdout + stderr));
    });
  } finally {
    await rm(dir, { recursive: true });
  }
}

// A cruiser that cannot read TypeScript sees no file, finds no violation, and says that all is well.
test('the layer check reads TypeScript, and allows what the layers allow', async () => {
  const found = await cruise({
    'src/web.ts': "import './http/app.ts'; import './store/keys.ts';",
    'src/http/app.ts': "import express from 'express'; import '../records/audit.ts'; export { express };",
    'src/records/audit.ts': 'export {};',
    'src/publishing/publisher.ts':
      "import '../subscribing/topic.ts'; import type { K } from '../store/keys.ts'; export type P = K;",
    'src/subscribing/topic.ts': "import '../store/keys.ts'; import '../ids.ts';",
    'src/store/keys.ts': "import { Redis } from 'ioredis'; export type K = Redis;",
    'src/ids.ts': 'export const id = 1;',
    'harness/bus.ts': "import '../src/web.ts';",
    'test/web.test.ts': "import '../harness/bus.ts'; import '../packages/client/src/index.ts';",
    'packages/client/src/index.ts':
      "import { hash } from 'node:crypto'; import './calls.ts'; export { hash };",
    'packages/client/src/calls.ts': 'export {};',
  });
  assert.match(found, /no dependency violations found \(\d+ modules, 14 dependencies cruised\)/);
});

test('the layer check refuses imports upward, sideways, and of what is another place’s', async () => {
  const found = await cruise({
    'src/http/app.ts': "import '../maintenance/sweep.ts';",
    'src/maintenance/sweep.ts': "import type { A } from '../http/types.ts'; export type B = A;",
    'src/http/types.ts': "import '../web.ts'; export type A = 1;",
    'src/web.ts': 'export {};',
    'src/publishing/publisher.ts':
      "import '../delivering/workers.ts'; import express from 'express'; export { express };",
    'src/delivering/workers.ts': "import 'fast-check'; import '../../harness/bus.ts';",
    'src/metrics/figures.ts': "import { request } from 'undici'; export { request };",
    'src/metrics/gauges.ts': "import { request } from 'node:http'; export { request };",
    'src/store/keys.ts': "import { a } from './more.ts'; export const k = a;",
    'src/store/more.ts': "import { k } from './keys.ts'; export const a = k;",
    'src/ids.ts': "await import('./store/keys.ts');",
    'harness/bus.ts': "import '../faults/lab.ts';",
    'faults/lab.ts': 'export {};',
    'packages/client/src/index.ts': "import '../../../src/ids.ts'; import { z } from 'zod'; export { z };",
    'packages/client/src/calls.ts': "import '../../cli/src/run.ts';",
    'packages/cli/src/run.ts': 'export {};',
  });
  for (const violation of [
    /folder-http: src\/http\/app.ts → src\/maintenance\/sweep.ts/,
    /folder-maintenance: src\/maintenance\/sweep.ts → src\/http\/types.ts/,
    /entries: src\/http\/types.ts → src\/web.ts/,
    /folder-publishing: src\/publishing\/publisher.ts → src\/delivering\/workers.ts/,
    /only-there-express\S*: src\/publishing\/publisher.ts/,
    /only-there-undici: src\/metrics\/figures.ts/,
    /node-http: src\/metrics\/gauges.ts → \S*http/,
    /listed: src\/delivering\/workers.ts → \S*fast-check/,
    /tree-src: src\/delivering\/workers.ts → harness\/bus.ts/,
    /tree-harness: harness\/bus.ts → faults\/lab.ts/,
    /tree-packages: packages\/client\/src\/index.ts → src\/ids.ts/,
    /packages-depend-on-node-alone: packages\/client\/src\/index.ts → \S*zod/,
    /package-client: packages\/client\/src\/calls.ts → packages\/cli/,
    /no-circular: src\/store\//,
    /leaves: src\/ids.ts → src\/store\/keys.ts/,
  ]) {
    assert.match(found, violation);
  }
});

test('the layer check refuses two folders that may import each other', async () => {
  const config = await readFile(join(root, '.dependency-cruiser.cjs'), 'utf8');
  const found = await cruise({
    '.dependency-cruiser.cjs': config.replace(/(?<= subscribing: \[)/, "'publishing', "),
    'src/subscribing/topic.ts': "import '../publishing/publisher.ts';",
    'src/publishing/publisher.ts': 'export {};',
  });
  assert.match(found, /src\/subscribing\/ would import publishing/);
});

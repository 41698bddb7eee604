import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { root } from './support/command.ts';

/** A project of these files alone, under our layer rules; gives what dependency-cruiser finds in it. */
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
    return await new Promise((resolve) => {
      execFile(depcruise, ['src'], { cwd: dir }, (_error, stdout) => resolve(stdout));
    });
  } finally {
    await rm(dir, { recursive: true });
  }
}

// A cruiser that cannot read TypeScript sees no file, finds no violation, and says that all is well.
test('the layer check reads TypeScript, and allows what the layers allow', async () => {
  const found = await cruise({
    'src/web.ts': "import './api/app.ts'; import './redis/keys.ts';",
    'src/api/app.ts': "import express from 'express'; import '../services/publish.ts'; export { express };",
    'src/services/publish.ts':
      "import '../models/topic.ts'; import type { K } from '../redis/keys.ts'; export type P = K;",
    'src/models/topic.ts': "import '../redis/keys.ts'; import '../ids.ts';",
    'src/redis/keys.ts': "import { Redis } from 'ioredis'; export type K = Redis;",
    'src/ids.ts': 'export const id = 1;',
  });
  assert.match(found, /no dependency violations found \(\d+ modules, 9 dependencies cruised\)/);
});

test('the layer check refuses imports upward, sideways, and of what is another place’s', async () => {
  const found = await cruise({
    'src/api/app.ts': "import '../jobs/batch.ts'; import '../redis/keys.ts';",
    'src/jobs/batch.ts': "import type { A } from '../api/types.ts'; export type B = A;",
    'src/api/types.ts': "import '../local/start.ts'; export type A = 1;",
    'src/models/topic.ts':
      "import '../services/publish.ts'; import express from 'express'; export { express };",
    'src/services/publish.ts': "import { request } from 'undici'; import 'fast-check'; export { request };",
    'src/redis/keys.ts': "import { a } from './more.ts'; export const k = a;",
    'src/redis/more.ts': "import { k } from './keys.ts'; export const a = k;",
    'src/ids.ts': "await import('./models/topic.ts');",
    'src/local/start.ts': 'export {};',
  });
  for (const violation of [
    /layer-api: src\/api\/app.ts → src\/jobs\/batch.ts/,
    /redis-by-models: src\/api\/app.ts → src\/redis\/keys.ts/,
    /layer-jobs: src\/jobs\/batch.ts → src\/api\/types.ts/,
    /entries: src\/api\/types.ts → src\/local\/start.ts/,
    /layer-models: src\/models\/topic.ts → src\/services\/publish.ts/,
    /only-there-express\S*: src\/models\/topic.ts/,
    /only-there-undici: src\/services\/publish.ts/,
    /listed: src\/services\/publish.ts → \S*fast-check/,
    /no-circular: src\/redis\//,
    /leaves: src\/ids.ts → src\/models\/topic.ts/,
  ]) {
    assert.match(found, violation);
  }
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { aroundTests } from '../../../harness/around_tests.ts';
import { Receiver } from '../../../harness/http/receiver.ts';
import {
  type Example,
  InstalledPackage,
  packedFiles,
  readExamples,
} from '../../../harness/packages/installed_package.ts';
import { nodeOfVersion, programsFor, VERSIONS } from '../../../harness/packages/node_versions.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { root } from '../../../harness/processes/command.ts';
import { bus } from '../default_bus.ts';

/** A program whose publishes share a signal. Node 20 would warn on stderr if each added a listener to it. */
const SHARED_SIGNAL: Example = {
  file: 'shared_signal.mjs',
  text: `
import { Routemaster } from '@routemaster/client';

const bus = new Routemaster({
  url: 'https://bus.example.com',
  token: 'shop--psbsfvxhjewnxiczhqc0',
  secret: 'JstIQF8oA-2oVgFXIZlV9O4kqU25YRCH',
  digest: true,
});
const { signal } = new AbortController();
const publishes = Array.from({ length: 3000 }, (_, n) =>
  bus.updated('orders', 'https://shop.example.com/orders/' + n, { signal }),
);
await Promise.all(publishes);
await bus.close();
`,
};

let installed: InstalledPackage | undefined;
let receiver: Receiver | undefined;
let examples: Example[] = [];

aroundTests(
  async () => {
    await bus.works;
    installed = await InstalledPackage.of('client');
    receiver = await Receiver.start();
    const { token, secret } = await bus.client('shop');
    examples = [...(await readExamples('client')), SHARED_SIGNAL];
    for (const { file, text } of examples) {
      const program = text
        .replaceAll('https://bus.example.com', bus.url)
        .replaceAll('shop--psbsfvxhjewnxiczhqc0', token)
        .replaceAll('JstIQF8oA-2oVgFXIZlV9O4kqU25YRCH', secret)
        .replaceAll('the root key', ROOT_KEY)
        .replaceAll('https://search.example.com/events', receiver.callback);
      await installed.write({ file, text: program });
    }
  },
  async () => {
    await receiver?.stop();
    await installed?.remove();
  },
);

test('what is packed is JavaScript with declarations, the README and the licence', async () => {
  const files = await packedFiles('client');
  const others = files.filter((path) => !/^dist\/[\w/]+\.(js|d\.ts)$/.test(path));
  assert.deepEqual(others.sort(), ['LICENSE', 'README.md', 'package.json']);
  assert.ok(files.includes('dist/index.js') && files.includes('dist/index.d.ts'));
  // Until TypeScript 6, a compiler that writes CommonJS finds no types by `exports`.
  const manifest = readFileSync(join(root, 'packages', 'client', 'package.json'), 'utf8');
  assert.equal(JSON.parse(manifest).types, './dist/index.d.ts');
});

test('the TypeScript of the README fits the declarations, which need no others', async () => {
  const typescript = examples.map(({ file }) => file).filter((file) => file.endsWith('.ts'));
  assert.ok(typescript.length > 0);
  await installed?.compile(typescript);
});

describe('each example of the README runs, and thousands of calls may share a signal', () => {
  for (const version of VERSIONS) {
    test(`on Node ${version}`, async (t) => {
      const node = await nodeOfVersion(version);
      if (node === undefined)
        return t.skip(`there is no Node ${version}: node harness/packages/node_versions.ts installs it`);
      for (const { file } of programsFor(version, examples))
        assert.equal(await installed?.run(node, file), '', file);
    });
  }
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { aroundTests } from '../../../harness/around_tests.ts';
import {
  type Example,
  InstalledPackage,
  packedFiles,
  readExamples,
} from '../../../harness/packages/installed_package.ts';
import { nodeOfVersion, programsFor, VERSIONS } from '../../../harness/packages/node_versions.ts';
import { root } from '../../../harness/processes/command.ts';

/** A program that handles a signed delivery, and refuses one without a signature. A warning would appear on stderr. */
const SIGNED_DELIVERY: Example = {
  file: 'signed_delivery.cjs',
  text: `
const assert = require('node:assert/strict');
const { createHmac } = require('node:crypto');
const { createReceiver, MemoryStore } = require('@routemaster/receiver');

const key = Buffer.from('a key of the tests of it');
const seen = [];
const receiver = createReceiver({
  signingSecret: 'whsec_' + key.toString('base64'),
  store: new MemoryStore(),
  on: { orders: (events) => void seen.push(...events) },
  onRefused: () => {},
});

async function deliver(text, signed = text) {
  const seconds = Math.floor(Date.now() / 1000);
  const signature = createHmac('sha256', key).update('1.' + seconds + '.' + signed).digest('base64');
  const headers = { 'webhook-id': '1', 'webhook-timestamp': String(seconds), 'webhook-signature': 'v1,' + signature };
  const request = new Request('https://search.example.com/events', { method: 'POST', headers, body: text });
  return (await receiver.fetch(request)).status;
}

(async () => {
  const text = JSON.stringify([{ topic: 'orders', type: 'noop', url: 'https://shop.example.com/orders/1', t: 1 }]);
  assert.equal(await deliver(text, '[]'), 401);
  assert.equal(await deliver(text), 204);
  assert.equal(await deliver(text), 204);
  assert.equal(seen.length, 1);
})();
`,
};

let installed: InstalledPackage | undefined;
let examples: Example[] = [];

aroundTests(
  async () => {
    installed = await InstalledPackage.of('receiver');
    examples = [...(await readExamples('receiver')), SIGNED_DELIVERY];
    process.env.SIGNING_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
    for (const { file, text } of examples) {
      // The program gets a free port, and ends when it has nothing else to do.
      const program = text.replace(".listen(9292, '127.0.0.1')", ".listen(0, '127.0.0.1').unref()");
      await installed.write({ file, text: program });
    }
  },
  () => installed?.remove(),
);

test('what is packed is JavaScript with declarations, the README and the licence', async () => {
  const files = await packedFiles('receiver');
  const others = files.filter((path) => !/^dist\/[\w/]+\.(js|d\.ts)$/.test(path));
  assert.deepEqual(others.sort(), ['LICENSE', 'README.md', 'package.json']);
  assert.ok(files.includes('dist/index.js') && files.includes('dist/index.d.ts'));
  // Until TypeScript 6, a compiler that writes CommonJS finds no types by `exports`.
  const manifest = readFileSync(join(root, 'packages', 'receiver', 'package.json'), 'utf8');
  assert.equal(JSON.parse(manifest).types, './dist/index.d.ts');
});

test('the TypeScript of the README fits the declarations, which need no others', async () => {
  const typescript = examples.map(({ file }) => file).filter((file) => file.endsWith('.ts'));
  assert.ok(typescript.length > 0);
  await installed?.compile(typescript);
});

describe('each example of the README runs, and CommonJS gets the package by require', () => {
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

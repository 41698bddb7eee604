import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { aroundTests } from '../../harness/around_tests.ts';
import {
  type Example,
  InstalledPackage,
  packedFiles,
  readExamples,
} from '../../harness/packages/installed_package.ts';
import { nodeOfVersion, programsFor, VERSIONS } from '../../harness/packages/node_versions.ts';
import { root } from '../../harness/processes/command.ts';

interface PackageTests {
  name: 'client' | 'receiver';
  /** A program that is run like those in the README, and what it shows. */
  also: Example & { shows: string };
  /** Called before the tests. Returns a function that makes the text of an example a program that can run here. */
  begin: () => Promise<(text: string) => string>;
  end?: () => Promise<void>;
}

/** Tests what is packed of a package, and that the examples of its README compile, and run on each version of Node. */
export function packageTests({ name, also, begin, end }: PackageTests): void {
  let installed: InstalledPackage | undefined;
  let examples: Example[] = [];

  aroundTests(
    async () => {
      const programOf = await begin();
      installed = await InstalledPackage.of(name);
      examples = [...(await readExamples(name)), also];
      for (const { file, text } of examples) await installed.write({ file, text: programOf(text) });
    },
    async () => {
      await end?.();
      await installed?.remove();
    },
  );

  test('what is packed is JavaScript with declarations, the README and the licence', async () => {
    const files = await packedFiles(name);
    const others = files.filter((path) => !/^dist\/[\w/]+\.(js|d\.ts)$/.test(path));
    assert.deepEqual(others.sort(), ['LICENSE', 'README.md', 'package.json']);
    assert.ok(files.includes('dist/index.js') && files.includes('dist/index.d.ts'));
    // Until TypeScript 6, a compiler that writes CommonJS finds no types by `exports`.
    const manifest = readFileSync(join(root, 'packages', name, 'package.json'), 'utf8');
    assert.equal(JSON.parse(manifest).types, './dist/index.d.ts');
  });

  test('the TypeScript of the README fits the declarations, which need no others', async () => {
    const typescript = examples.map(({ file }) => file).filter((file) => file.endsWith('.ts'));
    assert.ok(typescript.length > 0);
    await installed?.compile(typescript);
  });

  describe(`each example of the README runs, and ${also.shows}`, () => {
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
}

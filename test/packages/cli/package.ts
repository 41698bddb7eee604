import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { aroundTests } from '../../../harness/around_tests.ts';
import { InstalledPackage, packedFiles } from '../../../harness/packages/installed_package.ts';
import { nodeOfVersion, VERSIONS } from '../../../harness/packages/node_versions.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { root } from '../../../harness/processes/command.ts';
import { bus } from '../default_bus.ts';
import { Terminal } from './terminal.ts';

const terminal = new Terminal();
let installed: InstalledPackage | undefined;

aroundTests(
  async () => {
    await bus.works;
    installed = await InstalledPackage.of('cli', 'client', 'receiver');
  },
  () => installed?.remove(),
);

test('what is packed is JavaScript, the README and the licence', async () => {
  const others = (await packedFiles('cli')).filter((path) => !/^dist\/[\w/]+\.js$/.test(path));
  assert.deepEqual(others.sort(), ['LICENSE', 'README.md', 'package.json']);
});

describe('the packed tool calls a bus', () => {
  for (const version of VERSIONS) {
    test(`on Node ${version}`, async (t) => {
      const node = await nodeOfVersion(version);
      if (node === undefined)
        return t.skip(`there is no Node ${version}: node harness/packages/node_versions.ts installs it`);
      const options = ['-b', bus.url, '-t', ROOT_KEY];
      const token = await installed?.command(node, 'rtm', ['token', 'add', `shop${version}`, ...options]);
      const list = await installed?.command(node, 'rtm', ['token', 'list', ...options]);
      assert.ok(list?.includes(`${token?.trim()}\tshop${version}\n`), list);
      const manifest = readFileSync(join(root, 'packages', 'cli', 'package.json'), 'utf8');
      const printed = await installed?.command(node, 'rtm', ['--version']);
      assert.equal(printed, `${JSON.parse(manifest).version}\n`);
    });
  }
});

test('the README has every command, as help shows it', async () => {
  const { stdout } = await terminal.rtm('help --json');
  const commands: { forms: string[]; help: string }[] = JSON.parse(stdout);
  const blocks = commands.map(({ forms, help }) => [...forms, `    ${help}`].join('\n'));
  const readme = readFileSync(join(root, 'packages', 'cli', 'README.md'), 'utf8');
  const list = ['```', ...blocks, '```\n'].join('\n');
  assert.ok(readme.includes(list), `the list is:\n${list}`);
});

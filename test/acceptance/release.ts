import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { root } from '../../harness/processes/command.ts';
import { bus } from './default_bus.ts';

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

describe('the release in package.json', () => {
  for (const [name, message] of [
    ['web', 'listening'],
    ['worker', 'delivering'],
  ] as const) {
    test(`is in the line with which ${name} logs that it is ${message}`, async () => {
      assert.equal((await bus.process(name).logs(message)).release, version);
    });
  }

  test('is a figure of the web process that answers, beside its Node', async () => {
    const { node } = process.versions;
    assert.equal(await bus.metric('routemaster_build_info', { version, node }), 1);
  });

  test('is the version in the description of the API', async () => {
    const { info } = (await bus.root.call('GET', '/openapi.json')) as { info: { version: string } };
    assert.equal(info.version, version);
  });
});

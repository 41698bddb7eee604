import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Command, root } from '../../harness/processes/command.ts';

test('bin/setup is silent and changes nothing when nothing is missing', async () => {
  const lock = readFileSync(join(root, 'package-lock.json'), 'utf8');
  const setup = new Command('setup');
  assert.equal(await setup.exitCode, 0);
  assert.equal(setup.output, '');
  assert.equal(readFileSync(join(root, 'package-lock.json'), 'utf8'), lock);
});

test('the lock file holds every package of every platform, so that npm ci works on each', () => {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const missing = Object.values(packages as Record<string, { optionalDependencies?: object }>)
    .flatMap((entry) => Object.keys(entry.optionalDependencies ?? {}))
    .filter((name) => !(`node_modules/${name}` in packages));
  assert.deepEqual(missing, []);
});

test('Node 24 is locked, with a checksum, for each platform that bin/setup knows', () => {
  const { packages } = JSON.parse(readFileSync(join(root, 'bin/node24/package-lock.json'), 'utf8'));
  const { '': wanted, ...locked } = packages as Record<string, Record<string, unknown>>;
  assert.deepEqual(
    Object.keys(locked),
    Object.keys(wanted?.optionalDependencies ?? {}).map((name) => `node_modules/${name}`),
  );
  for (const [name, { version, integrity }] of Object.entries(locked)) {
    assert.match(String(version), /^24\.\d+\.\d+$/, name);
    assert.match(String(integrity), /^sha512-/, name);
  }
  assert.deepEqual(Object.keys(locked).length, 4);
});

for (const name of ['setup', 'start', 'receive', 'takeover', 'test']) {
  test(`bin/${name} --help says how to use it`, async () => {
    const command = new Command(name, ['--help']);
    assert.equal(await command.exitCode, 0);
    assert.match(command.output, new RegExp(`^Usage: bin/${name}`));
  });
}

for (const [name, argument] of [
  ['setup', '--all'],
  ['start', '--demos'],
  ['receive', 'here'],
  ['takeover', '--now'],
] as const) {
  test(`bin/${name} ${argument} is refused with its usage`, async () => {
    const command = new Command(name, [argument]);
    assert.equal(await command.exitCode, 2);
    assert.match(command.output, new RegExp(`${argument}[^]*Usage: bin/${name}`));
  });
}

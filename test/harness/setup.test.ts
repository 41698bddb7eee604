import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
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

for (const name of ['setup', 'start', 'receive', 'move', 'takeover', 'test']) {
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
  ['move', '--now'],
  ['takeover', '--now'],
] as const) {
  test(`bin/${name} ${argument} is refused with its usage`, async () => {
    const command = new Command(name, [argument]);
    assert.equal(await command.exitCode, 2);
    assert.match(command.output, new RegExp(`${argument}[^]*Usage: bin/${name}`));
  });
}

// The Docker image lacks bin/.
for (const name of ['move', 'takeover']) {
  test(`src/${name}.ts says how to use it as bin/${name} does`, () => {
    const said = (argument: string) => {
      const path = join(root, 'src', `${name}.ts`);
      const { stdout, stderr, status } = spawnSync(process.execPath, [path, argument], { encoding: 'utf8' });
      return { stdout, stderr, status };
    };
    const text = readFileSync(join(root, 'src', `${name}.txt`), 'utf8');
    assert.deepEqual(said('--help'), { stdout: text, stderr: '', status: 0 });
    const { stderr, status } = said('--now');
    assert.match(
      stderr,
      new RegExp(`^${name}: unknown (option|argument) '?--now'?\n\nUsage: bin/${name}`, 'i'),
    );
    assert.equal(status, 2);
  });
}

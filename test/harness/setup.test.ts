import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Command, PrintingProcess, root } from '../../harness/processes/command.ts';
import { listenLocally } from '../../harness/processes/ports.ts';
import { until } from '../../harness/until.ts';

test('bin/setup is silent and changes nothing when nothing is missing', async () => {
  const lock = readFileSync(join(root, 'package-lock.json'), 'utf8');
  const setup = new Command('setup');
  assert.equal(await setup.exitCode, 0);
  assert.equal(setup.output, '');
  assert.equal(readFileSync(join(root, 'package-lock.json'), 'utf8'), lock);
});

test('bin/setup waits until the npm of a setup that was killed has removed what it installed', async () => {
  const folder = withNode24();
  const stamp = join(folder, 'node_modules/.setup-package-lock.json');
  const calls = () => readFileSync(join(folder, 'calls'), 'utf8').split('\n').slice(0, -1);
  // The first npm outlives its setup by a second, and then removes what is there. The second one installs.
  fakeNpm(
    folder,
    `if [ -e calls ]; then echo begins >>calls; mkdir -p node_modules/.bin; else echo begins >>calls
     while kill -0 $PPID; do sleep 0.02; done 2>/dev/null; sleep 1; rm -r node_modules/.bin; fi; echo ends >>calls`,
  );
  try {
    rmSync(stamp);
    const killed = setupIn(folder);
    await killed.prints(/installing the npm dependencies/);
    await until(() => existsSync(join(folder, 'calls')), { what: 'npm to begin' });
    killed.signal('SIGKILL');
    assert.equal(await setupIn(folder).exitCode, 0);
    assert.deepEqual(calls(), ['begins', 'ends', 'begins', 'ends']);
    assert.ok(existsSync(join(folder, 'node_modules/.bin')) && existsSync(stamp));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

for (const [what, bin] of [
  ['the folder of commands', undefined],
  ['a package that has one', 'nowhere'],
] as const) {
  test(`bin/setup installs again when ${what} is gone`, async () => {
    const folder = withNode24();
    const commands = join(folder, 'node_modules/.bin');
    fakeNpm(folder, 'rm -rf node_modules/.bin; mkdir node_modules/.bin');
    try {
      if (bin === undefined) rmSync(commands, { recursive: true });
      else symlinkSync(bin, join(commands, 'command'));
      const mending = setupIn(folder);
      assert.deepEqual([await mending.exitCode, mending.output], [0, INSTALLING]);
      const idle = setupIn(folder);
      assert.deepEqual([await idle.exitCode, idle.output], [0, '']);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

test('bin/setup installs again after an npm that failed, also if the former release is back', async () => {
  const folder = withNode24();
  const lock = join(folder, 'package-lock.json');
  const former = readFileSync(lock, 'utf8');
  try {
    fakeNpm(folder, 'exit 1');
    writeFileSync(lock, '{"name":"the next release"}');
    assert.equal(await setupIn(folder).exitCode, 1);
    fakeNpm(folder, 'exit 0');
    writeFileSync(lock, former);
    const mending = setupIn(folder);
    assert.deepEqual([await mending.exitCode, mending.output], [0, INSTALLING]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('bin/setup --production installs no package for development alone, and removes none', async () => {
  const folder = withNode24();
  fakeNpm(folder, 'echo "$2" >>calls');
  try {
    rmSync(join(folder, 'node_modules/.setup-package-lock.json'));
    for (const argument of ['--production', '--production', '--no-redis', '--no-redis', '--production'])
      assert.equal(await setupIn(folder, argument).exitCode, 0);
    assert.equal(readFileSync(join(folder, 'calls'), 'utf8'), '--omit=dev\n--include=dev\n');
    // What has to be installed again is whole again, even if this setup is for production.
    symlinkSync('nowhere', join(folder, 'node_modules/.bin/command'));
    fakeNpm(folder, 'echo "$2" >>calls; rm node_modules/.bin/command');
    assert.equal(await setupIn(folder, '--production').exitCode, 0);
    assert.equal(readFileSync(join(folder, 'calls'), 'utf8'), '--omit=dev\n--include=dev\n--include=dev\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('bin/setup does not wait for ever in a folder where it may not write', () => {
  const folder = withNode24();
  try {
    chmodSync(folder, 0o555);
    const { stderr, status } = spawnSync(join(folder, 'bin/setup'), ['--no-redis'], {
      ...silently(folder),
      // Root may write anywhere.
      ...(process.getuid?.() === 0 && { uid: 65_534 }),
    });
    assert.deepEqual([stderr, status], ['', 0]);
  } finally {
    chmodSync(folder, 0o755);
    rmSync(folder, { recursive: true });
  }
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

test('bin/setup gets Node 24 from the registry that the npmrc of the machine names', async () => {
  const asked: string[] = [];
  const registry = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(404).end();
  });
  const port = await listenLocally(registry);
  const folder = withoutNode24();
  try {
    writeFileSync(join(folder, 'machine/etc/npmrc'), `registry=http://127.0.0.1:${port}/\n`);
    const setup = new PrintingProcess(join(folder, 'bin/setup'), ['--no-redis'], {
      cwd: folder,
      env: {
        PATH: `${join(folder, 'old')}:${process.env.PATH}`,
        HOME: folder,
        npm_config_prefix: join(folder, 'machine'),
        npm_config_fetch_retries: '0',
      },
    });
    assert.equal(await setup.exitCode, 1);
    assert.match(setup.output, /installing Node 24 /);
    assert.match(setup.output, /Node 24 could not be installed/);
    assert.match(asked.join(), /^\/node-/);
  } finally {
    registry.close();
    rmSync(folder, { recursive: true });
  }
});

/** Makes a folder in which bin/setup misses Node 24 alone. Its `old` has a Node that says that it is Node 20. */
function withoutNode24(): string {
  const folder = mkdtempSync(join(tmpdir(), 'setup-'));
  cpSync(join(root, 'bin'), join(folder, 'bin'), { recursive: true });
  for (const name of ['node_modules/.bin', 'machine/etc', 'old'])
    mkdirSync(join(folder, name), { recursive: true });
  for (const name of ['package-lock.json', 'node_modules/.setup-package-lock.json'])
    writeFileSync(join(folder, name), '{}');
  const claim = join(folder, 'old/claim.cjs');
  writeFileSync(claim, "Object.defineProperty(process.versions, 'node', { value: '20.19.0' });");
  const answer = '[ "$1" = --version ] && echo v20.19.0 && exit';
  const node = `#!/bin/sh\n${answer}\nexec '${process.execPath}' --require '${claim}' "$@"\n`;
  writeFileSync(join(folder, 'old/node'), node, { mode: 0o755 });
  return folder;
}

/** Makes a folder in which bin/setup misses nothing. */
function withNode24(): string {
  const folder = withoutNode24();
  writeFileSync(join(folder, 'old/node'), '#!/bin/sh\necho v24.0.0\n');
  return folder;
}

const INSTALLING = 'setup: installing the npm dependencies\n';

/** Makes a script the npm of a folder. It runs in that folder. */
function fakeNpm(folder: string, script: string): void {
  writeFileSync(join(folder, 'old/npm'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

/** Starts bin/setup of a folder. */
function setupIn(folder: string, ...options: string[]): PrintingProcess {
  const given = ['--no-redis', ...options];
  return new PrintingProcess(join(folder, 'bin/setup'), given, { cwd: folder, ...silently(folder) });
}

/** Options with which bin/setup of a folder should soon end. */
const silently = (folder: string) => ({
  env: { PATH: `${join(folder, 'old')}:${process.env.PATH}` },
  timeout: 10_000,
  encoding: 'utf8' as const,
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
    assert.match(command.output, new RegExp(`${argument}[^]*\n\nUsage: bin/${name}`));
  });
}

// The Docker image lacks bin/.
for (const name of ['move', 'takeover']) {
  test(`src/${name}.ts says how to use it as bin/${name} does`, () => {
    const path = join(root, 'src', `${name}.ts`);
    const { stdout, stderr, status } = spawnSync(process.execPath, [path, '--help'], { encoding: 'utf8' });
    const text = readFileSync(join(root, 'src', `${name}.txt`), 'utf8');
    assert.deepEqual({ stdout, stderr, status }, { stdout: text, stderr: '', status: 0 });
  });
}

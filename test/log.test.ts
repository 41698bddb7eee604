import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { pino } from 'pino';
import { root } from '../harness/processes/command.ts';
import { until } from '../harness/until.ts';
import { clock } from '../src/clock.ts';
import { StorageFull, StorageUnavailable } from '../src/errors.ts';
import { failureOf, rarelyFailing } from '../src/log.ts';

const LINES = 20_000;

/**
 * Starts a process that logs what it reads from stdin: at `line` a line, at `lines` many, after which it writes to
 * stderr that they are logged. At `now` it logs many lines, at both `now` and `end` a last one, and exits with 3.
 */
function logging(prefix: string[] = []): ChildProcess {
  const script = `
    import { createLog, logged } from ${JSON.stringify(join(root, 'src', 'log.ts'))};
    const log = createLog('info', { process: 'test' });
    const lines = () => {
      for (let n = 1; n < ${LINES}; n++) log.info({ n });
    };
    process.stdin.on('data', async (text) => {
      const word = String(text).trim();
      if (word === 'line') return log.info('one more');
      if (word !== 'end') lines();
      if (word === 'lines') return process.stderr.write('logged');
      log.fatal('the last');
      await logged();
      process.exit(3);
    });`;
  const [command = '', ...args] = [...prefix, process.execPath, '--input-type=module', '-e', script];
  return spawn(command, args, { stdio: 'pipe', timeout: 30_000, killSignal: 'SIGTERM' });
}

/** Waits until the process says that it has logged the lines. Throws if it ends before. */
async function said({ stderr }: ChildProcess): Promise<void> {
  await once(stderr as Readable, 'readable');
  assert.equal(String(stderr?.read()), 'logged');
}

test('a process that ends has written its whole log', async () => {
  const child = logging();
  child.stdin?.write('now\n');
  assert.ok(child.stdout);
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  assert.equal(code, 3);
  assert.equal(output.trim().split('\n').length, LINES);
  assert.match(output, /the last"}\n$/);
});

test('a process whose log has no reader any more still ends', async () => {
  const child = logging();
  child.stdout?.destroy();
  child.stdin?.write('now\n');
  const [code, signal] = await once(child, 'exit');
  assert.deepEqual([code, signal], [3, null]);
});

test('a process whose log has a reader that does not read is killed after a second', async () => {
  const child = logging();
  child.stdout?.pause();
  child.stdin?.write('now\n');
  const [code, signal] = await once(child, 'exit');
  assert.deepEqual([code, signal], [null, 'SIGKILL']);
});

test('a process whose log lost its reader long ago still ends', async () => {
  const child = logging();
  child.stdout?.destroy();
  child.stdin?.write('lines\n');
  await said(child);
  child.stdin?.write('end\n');
  const [code, signal] = await once(child, 'exit');
  assert.deepEqual([code, signal], [3, null]);
});

test('a process whose log is full goes on, and logs again when there is room', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'routemaster-log-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'log');
  // No file may have more than 5 MB (10 MB in shells whose blocks have 1,024 bytes); the lines have 16 MB.
  const child = logging(['sh', '-c', `ulimit -f 10000; exec "$@" >>${file}`, 'sh']);
  for (let n = 0; n < 11; n++) {
    child.stdin?.write('lines\n');
    await said(child);
  }
  truncateSync(file);
  child.stdin?.write('line\n');
  await until(() => statSync(file).size > 0, { what: 'the log goes on' });
  child.stdin?.write('end\n');
  const [code] = await once(child, 'exit');
  assert.equal(code, 3);
  assert.match(readFileSync(file, 'utf8'), /the last"}\n$/);
});

test('a failure is logged without the advice to callers of the API', () => {
  assert.deepEqual(failureOf(new StorageUnavailable(undefined)), {
    reason: 'Redis is away',
    away: 'Redis',
  });
  assert.deepEqual(failureOf(new StorageFull()), {
    reason: 'Redis has too little memory left',
    full: 'Redis',
  });
  assert.deepEqual(failureOf(new Error('no room')), { reason: 'no room' });
});

test('a Redis that is away or full, and what is skipped, is logged once a minute, anything else always', (t) => {
  const lines: string[] = [];
  let nowMs = 0;
  t.mock.method(clock, 'monotonicMs', () => nowMs);
  const hooks = { logMethod: rarelyFailing() };
  const log = pino({ hooks, base: null, timestamp: false }, { write: (line) => void lines.push(line) });
  const away = (redis: string) => failureOf(new StorageUnavailable(undefined, 'it does not answer', redis));
  const times = (count: number, write: () => void) => {
    lines.length = 0;
    for (let n = 0; n < count; n++) write();
    return lines.length;
  };
  assert.equal(
    times(5, () => log.warn(away('a'), 'cannot acquire')),
    1,
  );
  assert.match(lines[0] ?? '', /"reason":"it does not answer","away":"a","msg":"cannot acquire"/);
  assert.equal(
    times(5, () => log.warn(away('b'), 'cannot acquire')),
    1,
  );
  assert.equal(
    times(5, () => log.warn(away('a'), 'a heartbeat failed')),
    1,
  );
  nowMs += 59_999;
  assert.equal(
    times(5, () => log.warn(away('a'), 'cannot acquire')),
    0,
  );
  nowMs += 1;
  assert.equal(
    times(5, () => log.warn(away('a'), 'cannot acquire')),
    1,
  );
  for (const redis of ['a', 'b'])
    assert.equal(
      times(5, () => log.warn(failureOf(new StorageFull(undefined, redis)), 'cannot acquire')),
      1,
    );
  for (const skipped of ['topic:{topic}', 'batches:open'])
    assert.equal(
      times(2, () => log.error({ skipped }, 'cannot read')),
      1,
    );
  assert.equal(
    times(2, () => log.warn(failureOf(new Error('no room')), 'cannot acquire')),
    2,
  );
  assert.equal(
    times(2, () => log.info('stopped')),
    2,
  );
});

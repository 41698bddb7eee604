import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { BusClient, type Credentials } from '../../harness/http/bus_client.ts';
import { type Delivery, Receiver } from '../../harness/local/sample_receiver.ts';
import { Command } from '../../harness/processes/command.ts';
import { freePort } from '../../harness/processes/ports.ts';
import { killIfRunning, processesWith } from '../../harness/processes/processes.ts';
import { until } from '../../harness/until.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'routemaster-start-'));
});
afterEach(async () => {
  for (const { pid } of started()) killIfRunning(pid); // what a failed test left
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
});

/** bin/start with its data in `dir`, and nothing from the environment of who runs the tests. */
function start(args: string[] = [], env: Record<string, string> = {}): Command {
  const unset = Object.fromEntries(
    Object.keys(process.env)
      .filter((name) => /^(ROUTEMASTER_|FORCE_SSL|NODE_ENV|WEB_CONCURRENCY)/.test(name))
      .map((name) => [name, '']),
  );
  return new Command('start', args, {
    ...unset,
    ROUTEMASTER_REDIS_URL: '',
    ROUTEMASTER_ROOT_KEY: '',
    ROUTEMASTER_DATA_DIR: dir,
    PORT: '0',
    ...env,
  });
}

/** All that bin/start runs on `dir`, down to Redis and the processes that guard it. */
const started = () => processesWith(dir);
const startedAs = (name: string) => until(() => started().find(({ command }) => command.includes(name)));

async function interrupted(bus: Command): Promise<void> {
  bus.signal('SIGINT');
  assert.equal(await bus.exitCode, 0, bus.output);
  await until(() => started().length === 0, { what: 'nothing left behind' });
}

test('bin/start --demo prints delivered batches, twice in a row on the same data', async () => {
  for (const _ of ['first', 'second']) {
    const bus = start(['--demo']);
    await bus.prints(/Routemaster listens on http:\/\/127\.0\.0\.1:\d+/);
    await bus.prints(/demo {3}\| batch \S+: \d+ events?\ndemo {3}\| {3}demo_(orders|customers) /);
    await startedAs('redis.sock');
    await interrupted(bus);
  }
});

test('a second start delivers what the first accepted and could not deliver', async () => {
  const port = await freePort(); // nothing listens there yet
  const first = start();
  await first.prints(/listens on/);
  const busUrl = /listens on (\S+)/.exec(first.output)?.[1] ?? '';
  const rootKey = readFileSync(join(dir, 'root_key'), 'utf8').trim();
  const root = new BusClient(busUrl, { token: rootKey, secret: 'x' });
  const client = new BusClient(
    busUrl,
    (await root.call('POST', '/api_tokens', { name: 'shop' })) as Credentials,
  );
  const callback = `http://127.0.0.1:${port}/events`;
  await client.call('POST', '/subscription', { topics: ['widgets'], callback, uuid: 'shop' });
  await client.call('POST', '/topics/widgets', { type: 'create', url: 'https://example.com/widgets/1' });
  await interrupted(first);

  const deliveries: Delivery[] = [];
  const receiver = await Receiver.start(port, (delivery) => deliveries.push(delivery));
  const second = start();
  await until(() => deliveries.length > 0, { timeoutMs: 30_000 });
  assert.deepEqual(
    deliveries[0]?.events.map(({ topic, url }) => [topic, url]),
    [['widgets', 'https://example.com/widgets/1']],
  );
  await second.prints(/listens on/);
  assert.equal(readFileSync(join(dir, 'root_key'), 'utf8').trim(), rootKey);
  await interrupted(second);
  await receiver.stop();
});

test('while it runs, another bin/start on the same data is refused', async () => {
  const bus = start();
  await bus.prints(/listens on/);
  const other = start();
  assert.equal(await other.exitCode, 1);
  assert.match(other.output, /already runs/);
  await interrupted(bus);
});

test('when a process dies by itself, all stops with exit code 1', async () => {
  const bus = start();
  await bus.prints(/listens on/);
  process.kill((await startedAs('src/worker.ts')).pid, 'SIGKILL');
  assert.equal(await bus.exitCode, 1);
  assert.match(bus.output, /start: worker was ended by SIGKILL/);
  await until(() => started().length === 0, { what: 'nothing left behind' });
});

test('when bin/start itself is killed, what it started ends too', async () => {
  const bus = start();
  await bus.prints(/listens on/);
  bus.signal('SIGKILL');
  await until(() => started().length === 0, { timeoutMs: 40_000, what: 'nothing left behind' });
});

test('a signal while it starts leaves nothing behind', async () => {
  const bus = start();
  await startedAs('redis.sock');
  await interrupted(bus);
});

test('a PORT that is taken is reported', async () => {
  const holder = createServer().listen(0, '127.0.0.1');
  await until(() => holder.listening);
  const { port } = holder.address() as { port: number };
  const bus = start([], { PORT: String(port) });
  assert.equal(await bus.exitCode, 1);
  assert.match(bus.output, new RegExp(`port ${port} is taken`));
  holder.close();
});

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { BusClient, type Credentials } from '../../harness/http/bus_client.ts';
import { allowedCallbacks } from '../../harness/local/allowed_callbacks.ts';
import { type Delivery, RECEIVER_PORT, Receiver } from '../../harness/local/sample_receiver.ts';
import { portNear, readSettings } from '../../harness/local/settings.ts';
import { Command, root } from '../../harness/processes/command.ts';
import { freePort, listenLocally } from '../../harness/processes/ports.ts';
import { killIfRunning, processesWith } from '../../harness/processes/processes.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { callRedis } from '../../harness/redis/redis_call.ts';
import { until } from '../../harness/until.ts';

let dir: string;
const buses: Command[] = [];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'routemaster-start-'));
});
afterEach(async () => {
  // What a failed test left. The launcher stops what it started, also the nodes of a cluster, which `started` does not
  // find.
  for (const bus of buses.splice(0)) bus.signal('SIGTERM');
  await until(() => started().length === 0).catch(() => {});
  for (const { pid } of started()) killIfRunning(pid);
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
});

/** Two threads. All other starts have one, because each thread takes a third of the CPU of a worker's start. */
const DEFAULT_THREADS = { ROUTEMASTER_WORKER_THREADS: '' };

/** Starts bin/start with its data in `dir`, without the settings in the environment of the tests. */
function start(args: string[] = [], env: Record<string, string> = {}): Command {
  const unset = Object.fromEntries(
    Object.keys(process.env)
      .filter((name) => /^(ROUTEMASTER_|FORCE_SSL|HOST|NODE_ENV|WEB_CONCURRENCY)/.test(name))
      .map((name) => [name, '']),
  );
  const bus = new Command('start', args, {
    ...unset,
    ROUTEMASTER_REDIS_URL: '',
    ROUTEMASTER_ROOT_KEY: '',
    ROUTEMASTER_DATA_DIR: dir,
    ROUTEMASTER_WORKER_THREADS: '1',
    PORT: '0',
    ...env,
  });
  buses.push(bus);
  return bus;
}

/** Returns all processes that bin/start runs with `dir`, down to Redis and the processes that guard it. */
const started = () => processesWith(dir);
const startedAs = (name: string) => until(() => started().find(({ command }) => command.includes(name)));

const kept = (file: string) => readFileSync(join(dir, file), 'utf8').trim();
function tour(): Credentials {
  const [token = '', secret = ''] = kept('tour_client').split(':');
  return { token, secret };
}

/** Linux takes all of 127.0.0.0/8 for this machine; elsewhere there is no other address to try. */
const OTHER_LOOPBACK = process.platform === 'linux' ? '127.0.0.2' : undefined;
const reach = (address: string, port: string | undefined) =>
  fetch(`http://${address}:${port}/health`).then(
    () => true,
    () => false,
  );

/** What a subscriber of the demo lost, as its page in the console shows it. */
async function lossesOf(url: string, credentials: Credentials | undefined) {
  assert.ok(credentials);
  const report = await new BusClient(url, credentials).call('GET', `/subscribers/${credentials.token}`);
  const { batches, events, untold } = (report as { dropped: Record<string, number> }).dropped;
  return { batches, events, untold };
}

async function interrupted(bus: Command): Promise<void> {
  bus.signal('SIGINT');
  assert.equal(await bus.exitCode, 0, bus.output);
  await until(() => started().length === 0, { what: 'nothing left behind' });
}

/** What the demo keeps of its clients. */
interface DemoClients {
  publisher: Credentials;
  patients: Record<'demo_paused', Credentials>;
}

test('bin/start --demo prints delivered batches and has a drop notice, twice in a row; makes another publisher if that was removed; and leaves nothing to a start without it', async () => {
  const clients = () => JSON.parse(kept('demo/demo.json')) as DemoClients;
  const rootOf = (url: string) => new BusClient(url, { token: kept('root_key'), secret: 'x' });
  const demo = async (env: Record<string, string>) => {
    const bus = start(['--demo'], env);
    const [, url = ''] = await bus.prints(/Routemaster listens on (http:\/\/127\.0\.0\.1:\d+)/);
    await bus.prints(/the demo dropped a batch of demo_paused, .* memory ran short, but there is enough/);
    await bus.prints(/demo {3}\| batch \S+: \d+ events?\ndemo {3}\| {3}\S{16} {2}demo_(orders|customers) /);
    await startedAs('redis.sock');
    return { bus, url, losses: await lossesOf(url, clients().patients.demo_paused) };
  };
  const first = await demo({});
  assert.deepEqual(first.losses, { batches: 1, events: 3, untold: 3 });
  await interrupted(first.bus);

  // The demo must also run for somebody who has set callbacks for a bus of their own.
  const own = { ROUTEMASTER_CALLBACK_ALLOW: '10.0.0.0/8', ROUTEMASTER_CALLBACK_PORTS: '443' };
  const second = await demo(own);
  assert.deepEqual(second.losses, first.losses);
  await second.bus.prints(/stay in /);
  const { token } = clients().publisher;
  await rootOf(second.url).call('DELETE', `/api_tokens/${token}`);
  await second.bus.prints(/demo {3}\| publishes no more, until the next start: .* 401 /);
  await interrupted(second.bus);
  assert.equal(second.bus.output.split(' → 401 ').length, 2);

  const third = await demo({});
  await third.bus.prints(
    /demo {3}\| deleted demo_customers, demo_orders, demo_reports, to which an earlier demo published/,
  );
  await third.bus.prints(/stay in /);
  assert.notEqual(clients().publisher.token, token);
  const paused = new BusClient(third.url, clients().patients.demo_paused);
  const [report] = (await paused.call('GET', '/subscriptions')) as { topics: string[]; paused_at: unknown }[];
  assert.deepEqual(report?.topics, ['demo_customers']);
  assert.ok(report?.paused_at);
  await interrupted(third.bus);

  const plain = start([], own);
  const [, url = ''] = await plain.prints(/listens on (\S+)/);
  const made = (await rootOf(url).call('GET', '/api_tokens')) as { name: string }[];
  assert.deepEqual(
    made.map(({ name }) => name),
    ['tour'],
  );
  await plain.prints(
    /callbacks {2}may lead to port 443 of 10\.0\.0\.0\/8, and by https of public addresses\n/,
  );
  await plain.prints(
    /add 127\.0\.0\.1 to ROUTEMASTER_CALLBACK_ALLOW and 9292 to ROUTEMASTER_CALLBACK_PORTS, and start again/,
  );
  assert.doesNotMatch(plain.output, /curl|bin\/receive/);
  await interrupted(plain);
});

test('the demo on the Redis of ROUTEMASTER_REDIS_URL is apart from the bus there, unless the prefix is set', async (t) => {
  const redis = await PrivateRedis.during(t);
  const bus = start(['--demo'], { ROUTEMASTER_REDIS_URL: redis.url });
  await bus.prints(/demo {3}\| these clients and topics stay in Redis, with the prefix demo:, for /);
  await interrupted(bus);
  const keys = (await callRedis(redis.url, 'KEYS', '*')) as string[];
  assert.ok(keys.length > 0);
  assert.deepEqual(
    keys.filter((key) => !key.startsWith('demo:')),
    [],
  );
  assert.match(bus.output, /ROUTEMASTER_REDIS_URL names, with the prefix demo:\n/);
  assert.ok(existsSync(join(dir, 'demo/demo.json')));

  const own = { ROUTEMASTER_REDIS_URL: redis.url, ROUTEMASTER_REDIS_PREFIX: 'mine:' };
  const { dataDir, redisPrefix } = readSettings(dir, ['--demo'], own);
  assert.deepEqual([dataDir, redisPrefix], [dir, 'mine:']);
});

test('bin/start says what it waits for if the Redis of ROUTEMASTER_REDIS_URL cannot be reached', async () => {
  const bus = start([], { ROUTEMASTER_REDIS_URL: 'redis://127.0.0.1:1' });
  await bus.prints(/Waiting for the bus, .* ROUTEMASTER_REDIS_URL names reachable\?/);
  await interrupted(bus);
});

test('bin/start --cluster runs the demo on a cluster, one at a time, and tells what becomes of a master that is killed', async () => {
  const bus = start(['--cluster']);
  await bus.prints(/demo {3}\| batch \S+: \d+ events?\n/);
  const second = start(['--cluster']);
  assert.equal(await second.exitCode, 78, second.output);
  assert.match(second.output, /^start: bin\/start --cluster already runs .*: stop that one first/m);
  const look = /REDISCLI_AUTH=.* cluster nodes/.exec(bus.output)?.[0] ?? '';
  const nodes = execFileSync('sh', ['-c', look], { cwd: root, encoding: 'utf8' });
  assert.equal(nodes.match(/\bmaster /g)?.length, 3, nodes);
  const pid = Number(/kill -9 (\d+)/.exec(bus.output)?.[1]);
  process.kill(pid, 'SIGKILL');
  await bus.prints(/redis {2}\| 127\.0\.0\.1:\d+ has ended/);
  await bus.prints(/redis {2}\| 127\.0\.0\.1:\d+ \(process \d+\) is a master now/);
  await interrupted(bus);
  // The files about the clients of the cluster are gone. Otherwise the next start, with a private Redis, would find
  // files that do not fit, and fail.
  assert.deepEqual(readdirSync(dir).sort(), ['cluster', 'root_key']);
});

test('what it prints subscribes and publishes, and has no credential in it; the next start delivers what was left, listens where HOST says, closes data that others could read, and nothing of it outlives it', async (t) => {
  const port = await freePort();
  const bus = start([], { ROUTEMASTER_CALLBACK_PORTS: String(port) });
  await bus.prints(/topics\/widgets/);
  for (const [file, credential] of [
    ['root_key', kept('root_key')],
    ['tour_client', tour().secret],
  ] as const)
    assert.ok(!bus.output.includes(credential), file);

  const printed = bus.output.split('\n').map((line) => line.trim());
  const commands = (pattern: RegExp) =>
    printed.filter((line) => /^(BUS|TOUR)=/.test(line) || pattern.test(line)).join('\n');
  const paste = (pasted: string) => {
    const { status, stderr } = spawnSync('sh', ['-ec', pasted], { encoding: 'utf8', cwd: root });
    assert.equal(status, 0, stderr);
  };

  const listen = commands(/^bin\/rtm listen /).replace(/^bin/m, 'exec bin');
  const listening = spawn('sh', ['-ec', listen], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => listening.kill('SIGKILL'));
  let heard = '';
  listening.stdout.setEncoding('utf8').on('data', (text) => (heard += text));
  const { token, secret } = tour();
  const client = new BusClient(/BUS=(\S+)/.exec(bus.output)?.[1] ?? '', { token, secret });
  await until(async () => ((await client.call('GET', '/subscriptions')) as unknown[]).length === 1);
  paste(commands(/^bin\/rtm pub /));
  await until(() => /widgets create https:\/\/example\.com\/widgets\/1\n/.test(heard));
  listening.kill('SIGINT');
  assert.deepEqual(await once(listening, 'close'), [0, null]);

  const deliveries: Delivery[] = [];
  const receiver = await Receiver.start(port, (delivery) => deliveries.push(delivery));
  t.after(() => receiver.stop());
  assert.match(bus.output, new RegExp(`bin/receive ${port}\n`));
  paste(commands(/^curl /));
  await until(() => deliveries.length > 0);
  assert.equal(deliveries[0]?.events[0]?.url, 'https://example.com/widgets/1');

  await receiver.stop();
  await client.call('POST', '/topics/widgets', { type: 'create', url: 'https://example.com/widgets/2' });
  const rootKey = kept('root_key');
  await interrupted(bus);
  for (const each of [dir, join(dir, 'appendonlydir')]) await chmod(each, 0o755);
  await chmod(join(dir, 'root_key'), 0o644);

  const late: Delivery[] = [];
  const back = await Receiver.start(port, (delivery) => late.push(delivery));
  t.after(() => back.stop());
  const second = start([], { HOST: '0.0.0.0', ROUTEMASTER_CALLBACK_PORTS: String(port), ...DEFAULT_THREADS });
  await until(() => late.length > 0);
  assert.deepEqual(
    late[0]?.events.map(({ topic, url }) => [topic, url]),
    [['widgets', 'https://example.com/widgets/2']],
  );
  const [, secondPort] = await second.prints(/listens on http:\/\/127\.0\.0\.1:(\d+)/);
  assert.equal(kept('root_key'), rootKey);
  assert.match(
    second.output,
    /network {4}open: with HOST=0\.0\.0\.0 other machines can reach it, over plain http/,
  );
  for (const address of ['127.0.0.1', OTHER_LOOPBACK ?? '127.0.0.1'])
    assert.ok(await reach(address, secondPort));
  const paths = readdirSync(dir, { recursive: true, encoding: 'utf8' }).map((each) => join(dir, each));
  const open = [dir, ...paths].filter((path) => (statSync(path).mode & 0o077) !== 0);
  assert.deepEqual(open, []);

  second.signal('SIGKILL');
  await until(() => started().length === 0, { what: 'nothing left behind' });
});

test('what it prints of callbacks is true for every setting of them', async () => {
  const taken = createServer().listen(0);
  await until(() => taken.listening);
  const { port } = taken.address() as { port: number };
  const allowed = (ROUTEMASTER_CALLBACK_ALLOW: string, ROUTEMASTER_CALLBACK_PORTS: string) =>
    allowedCallbacks({ ROUTEMASTER_ROOT_KEY: 'key', ROUTEMASTER_CALLBACK_ALLOW, ROUTEMASTER_CALLBACK_PORTS });
  for (const [allow, ports, receiverPort, missing] of [
    ['127.0.0.1', '443,9292', RECEIVER_PORT, []],
    ['127.0.0.0/8', '', RECEIVER_PORT, []],
    ['127.0.0.0/8', '9000-9999', RECEIVER_PORT, []],
    ['127.0.0.1', '80,443', undefined, ['9292 to ROUTEMASTER_CALLBACK_PORTS']],
    ['127.0.0.1', String(port), undefined, ['9292 to ROUTEMASTER_CALLBACK_PORTS']],
    ['10.0.0.0/8', '', undefined, ['127.0.0.1 to ROUTEMASTER_CALLBACK_ALLOW']],
  ] as const) {
    const found = await allowed(allow, ports);
    assert.deepEqual([found.receiverPort, found.missing], [receiverPort, missing], `${allow} ${ports}`);
  }
  for (const [ports, description] of [
    ['9293', /^may lead to port 9293 of 127\.0\.0\.1, and by https to port 9293 of public addresses$/],
    ['443,9293', /^may lead to ports 443, 9293 of 127\.0\.0\.1, and by https of public addresses$/],
    ['400-500', /^may lead to port 400-500 of 127\.0\.0\.1, and by https of public addresses$/],
    ['', /^may lead to any port of 127\.0\.0\.1, and by https of public addresses$/],
  ] as const)
    assert.match((await allowed('127.0.0.1', ports)).description, description);
  const other = await freePort();
  assert.equal((await allowed('127.0.0.1', `${port},${other}`)).receiverPort, other);
  taken.close();
});

test('with the defaults, only this machine reaches it, one runs at a time, and all ends with its worker', async () => {
  const port = String(await freePort());
  const bus = start([], { PORT: port, ...DEFAULT_THREADS });
  await bus.prints(/topics\/widgets/);
  assert.equal(await reach('127.0.0.1', port), true);
  assert.doesNotMatch(bus.output, /other machines/);
  if (OTHER_LOOPBACK) assert.equal(await reach(OTHER_LOOPBACK, port), false);
  const client = new BusClient(`http://127.0.0.1:${port}`, tour());
  const subscribe = (callback: string) =>
    client.call('POST', '/subscription', { topics: ['widgets'], callback, uuid: 'x' });
  await subscribe(`http://127.0.0.1:${RECEIVER_PORT}/events`);
  assert.doesNotMatch(bus.output, /WARN|a new one begins/);
  await assert.rejects(subscribe(`http://127.0.0.1:${port}/`), /not one of ROUTEMASTER_CALLBACK_PORTS/);

  const other = start([], { PORT: port });
  assert.equal(await other.exitCode, 78);
  assert.match(other.output, /already runs/);
  assert.doesNotMatch(other.output, /is taken/);

  process.kill((await startedAs('src/worker.ts')).pid, 'SIGKILL');
  assert.equal(await bus.exitCode, 1);
  assert.match(bus.output, /start: worker was ended by SIGKILL/);
  await until(() => started().length === 0, { what: 'nothing left behind' });
});

test('a start warns if its Redis has lost the bus of an earlier start', async () => {
  writeFileSync(join(dir, 'tour_client'), 'tour--gone:secret\n');
  const bus = start();
  await bus.prints(/WARN: Redis has no bus yet: a new one begins/);
  await bus.prints(/Routemaster listens on/);
  await interrupted(bus);
});

test('a directory that others can read and that has other files is refused as it is', async () => {
  writeFileSync(join(dir, 'letter.txt'), 'Dear', { mode: 0o644 });
  await chmod(dir, 0o755);
  const bus = start();
  assert.equal(await bus.exitCode, 78);
  assert.match(bus.output, /has other files too: set ROUTEMASTER_DATA_DIR/);
  assert.equal(statSync(dir).mode & 0o777, 0o755);

  // A directory `demo` of somebody else counts as another file.
  await rm(join(dir, 'letter.txt'));
  mkdirSync(join(dir, 'demo'));
  writeFileSync(join(dir, 'demo', 'page.html'), '<p>', { mode: 0o644 });
  assert.equal(await start().exitCode, 78);
  assert.equal(statSync(join(dir, 'demo', 'page.html')).mode & 0o777, 0o644);
});

test('a wrong start is told in one sentence that says what to do', async () => {
  const file = join(dir, 'file');
  writeFileSync(file, '');
  writeFileSync(join(dir, 'demo'), '');
  const emptied = join(dir, 'emptied');
  mkdirSync(emptied);
  writeFileSync(join(emptied, 'root_key'), '\n');
  const advice = /move the file away, or set ROUTEMASTER_DATA_DIR to another directory$/;
  for (const [args, env, message] of [
    [['--demo'], {}, advice],
    [[], { ROUTEMASTER_DATA_DIR: file }, advice],
    [[], { ROUTEMASTER_DATA_DIR: join(file, 'data') }, advice],
    [[], { ROUTEMASTER_DATA_DIR: emptied }, /emptied\/root_key is empty; delete it to get a new key$/],
    [[], { ROUTEMASTER_DATA_DIR: '/proc/x' }, /or set ROUTEMASTER_DATA_DIR to another directory$/],
    [['--cluster'], { ROUTEMASTER_REDIS_URL: 'redis://127.0.0.1:1' }, /but ROUTEMASTER_REDIS_URL is set$/],
  ] as const) {
    const bus = start([...args], env);
    assert.equal(await bus.exitCode, 78, bus.output);
    const lines = bus.output.trim().split('\n');
    assert.match(lines.filter((line) => line.startsWith('start: ')).join(), message);
    assert.doesNotMatch(bus.output, /\n +at /);
  }
});

test('what web or worker refuses ends it with their status', async () => {
  const bus = start([], { HOST: '192.0.2.1' });
  assert.equal(await bus.exitCode, 75, bus.output);
  assert.match(bus.output, /web +\| Cannot listen: HOST is 192\.0\.2\.1, .*\n/);
  assert.match(bus.output, /start: web ended with exit code 75\n/);
});

test('a signal while it starts leaves nothing behind', async () => {
  const bus = start();
  await startedAs('redis.sock');
  await interrupted(bus);
});

test('a PORT that is taken is reported', async () => {
  const holder = createServer();
  const port = await listenLocally(holder);
  const bus = start([], { PORT: String(port) });
  assert.equal(await bus.exitCode, 78);
  assert.match(bus.output, new RegExp(`port ${port} is taken`));
  holder.close();
});

test('without PORT, a taken port leads to one of the ten after it', async () => {
  const holder = createServer();
  const port = await listenLocally(holder);
  const near = await portNear(port);
  assert.ok(near > port && near <= port + 10, `${near} is near ${port}`);
  holder.close();
});

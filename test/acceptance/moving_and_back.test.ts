import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { PrintingProcess, root } from '../../harness/processes/command.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { RubyWeb, RubyWorker } from '../../harness/redis/ruby_processes.ts';
import { snapshot } from '../../harness/scripts/invariants.ts';
import { until } from '../../harness/until.ts';
import { batchBody } from '../../src/delivering/batch.ts';

const TOKEN = 'old--0123456789abcdef';

/** The keys that docs/migrating.md removes on the way back. */
const [, KEYS = ''] = /redis-cli DEL (.+)/.exec(readFileSync(join(root, 'docs/migrating.md'), 'utf8')) ?? [];

/** Subscribes the token to `widgets`, as the Ruby Routemaster stores it. */
async function subscribeAsRuby({ store: { redis } }: RunningBus, callback: string): Promise<void> {
  await redis.hset('api_tokens:by_token', TOKEN, 'old');
  await redis.sadd('topics', 'widgets');
  await redis.sadd('subscribers', TOKEN);
  await redis.hset(`subscriber:${TOKEN}`, { callback, timeout: '0', max_events: '1', uuid: 'old' });
  await redis.sadd(`topics:${TOKEN}`, 'widgets');
  await redis.sadd('subscribers:widgets', TOKEN);
}

/** Runs a process of the bus, which must refuse to start. Returns what it printed. */
async function refused(bus: RunningBus, name: string): Promise<string> {
  const env = {
    ...process.env,
    PORT: '0',
    ROUTEMASTER_ROOT_KEY: ROOT_KEY,
    ROUTEMASTER_REDIS_URL: bus.redis.url,
  };
  const child = new PrintingProcess(process.execPath, [`src/${name}.ts`], { cwd: root, env });
  assert.equal(await child.exitCode, 78, child.output);
  return child.output;
}

test('a move as docs/migrating.md has it, and the way back: nothing is lost', async (t) => {
  const bus = await RunningBus.open({ env: { ROUTEMASTER_WORKER_LEASE: '2' } });
  t.after(() => bus.close());
  bus.announceError(/Ruby|^the sweep found/);
  const receiver = await bus.receiver(t);
  await subscribeAsRuby(bus, receiver.callback);
  const urls: string[] = [];
  const web = new RubyWeb(bus.store.redis);
  const publishAsRuby = async () => {
    const url = `https://shop.example.com/${urls.length}`;
    await web.publish('widgets', url);
    urls.push(url);
  };
  const arrived = () => until(() => receiver.missing(urls).length === 0);

  // With a Ruby worker, neither process starts, and nothing changes.
  const worker = new RubyWorker(bus.store.redis);
  await publishAsRuby();
  await worker.heartbeat();
  const before = await snapshot(bus.store);
  for (const name of ['worker', 'web']) {
    const output = await refused(bus, name);
    assert.match(output, /1 workers of the Ruby Routemaster use this Redis; .* Stop them all/);
  }
  assert.deepEqual(await snapshot(bus.store), before);
  await worker.stop();

  // The Ruby web goes on, during the takeover and after it.
  await bus.store.redis.del('workers');
  await publishAsRuby();
  const ours = await bus.start('worker');
  await bus.start('web');
  await publishAsRuby();
  await arrived();
  // Logged by the watch for Ruby processes, or by the sweep that it starts.
  await until(() => ours.log.some(({ msg }) => msg.startsWith('a Ruby process still writes here')));
  const client = await bus.client('new');
  urls.push('https://shop.example.com/new');
  await client.publish('widgets', { url: 'https://shop.example.com/new' });
  await arrived();

  // The way back, through empty queues.
  await until(async () => (await bus.store.redis.exists('batches:index', 'jobs:index:main')) === 0);
  for (const name of ['web', 'worker'] as const) await bus.process(name).stop();
  await bus.store.redis.del(...KEYS.split(' '));
  const again = new RubyWorker(bus.store.redis, async (callback, events) => {
    await fetch(callback, { method: 'POST', body: batchBody(events) });
  });
  again.start();
  await publishAsRuby();
  await arrived();
  await until(() => again.delivered.length === 1);
  await again.stop();

  // The bus takes the Redis over once more.
  await bus.store.redis.del('workers');
  await publishAsRuby();
  await bus.start('worker');
  await arrived();
  assert.deepEqual(receiver.urls.toSorted(), urls.toSorted(), 'each event came once');
  assert.ok(Number(await bus.store.redis.get('taken_over')) > Date.now() - 60_000);
});

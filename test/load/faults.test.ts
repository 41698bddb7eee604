import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readOptions } from '../../faults/options.ts';
import { acknowledgesOnMain, type Message, RedisProxy } from '../../faults/redis_proxy.ts';
import { forPeople } from '../../faults/report.ts';
import { RespReader } from '../../faults/resp.ts';
import type { Scenario } from '../../faults/scenario.ts';
import { SCENARIOS } from '../../faults/scenarios.ts';
import { runScenario } from '../../faults/trial.ts';
import { Random } from '../../harness/random.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { openStore } from '../../harness/redis/store.ts';
import { Queue } from '../../src/delivering/queue.ts';

const draw = (seed: string) => {
  const random = new Random(seed);
  return Array.from({ length: 10 }, () => random.whole(0, 1000));
};

/**
 * Scenarios of which no other test does the same: their books cover kills of web, lost replies of Redis, and outboxes.
 * For kills of workers and Redis, failovers, clocks, memory, order and flow there are `test/acceptance/` and
 * `test/store/`; `npm run faults -- --quick` runs all scenarios.
 */
const HERE = ['web-kill', 'redis-proxy', 'outbox-kill'];

suite('faults', { concurrency: 3 }, () => {
  for (const scenario of SCENARIOS.filter(({ name }) => HERE.includes(name))) testQuickly(scenario);
});

function testQuickly(scenario: Scenario): void {
  test(`${scenario.name}: ${scenario.title}`, async (t) => {
    const events = scenario.events.quick;
    const said: string[] = [];
    const say = (text: string) => void said.push(text);
    const result = await runScenario(scenario, { seed: 1, quick: true, partitions: 1, events, say });
    assert.ok(result.ok, `${forPeople([result])}\n${said.join('\n')}`);
    const skipped = result.bars.find(({ text }) => text.startsWith('skipped'));
    if (skipped) return t.skip(skipped.text);
    assert.ok(result.accepted >= events, 'it did something');
  });
}

test('the same seed decides the same', () => {
  assert.deepEqual(draw('1/kills'), draw('1/kills'));
  assert.notDeepEqual(draw('1/kills'), draw('2/kills'));
  assert.deepEqual(readOptions(['--seed', '7'], SCENARIOS).seed, 7);
});

test('a bus has as many partitions as the command line says', () => {
  assert.equal(readOptions([], SCENARIOS).partitions, 1);
  assert.equal(readOptions(['--partitions', '4'], SCENARIOS).partitions, 4);
});

test('the traffic between Redis and a process is split into messages, however it arrives', () => {
  const messages = [
    '*2\r\n$3\r\nGET\r\n$1\r\na\r\n',
    '$-1\r\n',
    '-OOM no\r\n',
    '*2\r\n:1\r\n*2\r\n$0\r\n\r\n$-1\r\n',
    '%1\r\n+a\r\n_\r\n',
    '>2\r\n+message\r\n#t\r\n',
    '*0\r\n',
  ];
  const bytes = Buffer.from(messages.join(''));
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const reader = new RespReader();
    const read: string[] = [];
    for (let at = 0; at < bytes.length; at += size)
      for (const each of reader.read(bytes.subarray(at, at + size))) read.push(String(each));
    assert.deepEqual(read, messages);
  }
});

test('a call between Redis and a process acknowledges a delivery only if it names a finished job', async (t) => {
  const redis = await PrivateRedis.start();
  const proxy = await RedisProxy.start(redis.socketPath ?? '');
  const store = await openStore(proxy.url);
  t.after(async () => {
    store.redis.disconnect();
    proxy.stop();
    await redis.stop();
  });
  const calls: Message['call'][] = [];
  const settings = { laneLimit: 1, laneLimitMax: 1, leaseMs: 30_000, deliveryLog: 0 };
  const [main, aux] = [new Queue(store, 'main', settings), new Queue(store, 'aux', settings)];
  await aux.acquire([]); // loads the scripts
  proxy.meddle = ({ at, call }) => {
    if (at === 'request' && call.script === 'acquire') calls.push(call);
    return undefined;
  };
  await store.redis.lpush(store.keys.jobs_instant('main'), 'a job');
  const [grant = assert.fail()] = (await main.acquire(['w1'])).grants;
  const finished = { grant, heal: 0, tookMs: 0 };
  await main.acquire(['w1'], [finished]);
  await main.ack(finished);
  await aux.ack(finished);
  assert.deepEqual(calls.map(acknowledgesOnMain), [false, true, true, false]);
});

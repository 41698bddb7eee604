import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { Ledger } from '../../faults/ledger.ts';
import { readOptions } from '../../faults/options.ts';
import { acknowledgesOnMain, type Message, RedisProxy } from '../../faults/redis_proxy.ts';
import { forPeople } from '../../faults/report.ts';
import { RespReader } from '../../faults/resp.ts';
import type { Scenario } from '../../faults/scenario.ts';
import { SCENARIOS } from '../../faults/scenarios.ts';
import { runScenario } from '../../faults/trial.ts';
import { Receiver } from '../../harness/http/receiver.ts';
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

/**
 * Books five accepted events. Their ordered subscriber gets these batches: an id, which a Ruby worker leaves out, a
 * colon, and events.
 */
async function bookOrdered(t: TestContext, ...batches: string[]): Promise<Ledger> {
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  const ledger = new Ledger();
  ledger.expect({ topic: 'widgets', receiver, ordered: true });
  ledger.accept('widgets', ['1', '2', '3', '4', '5']);
  for (const batch of batches) {
    const [id = '', events = ''] = batch.split(':');
    const body = JSON.stringify([...events].map((url) => ({ url })));
    await fetch(receiver.callback, { method: 'POST', headers: id === '' ? {} : { 'webhook-id': id }, body });
  }
  return ledger;
}

/** What ordered subscribers got, and how many events are out of order and how many receipts late. */
const ORDERS: [what: string, batches: string[], outOfOrder: number, late: number][] = [
  ['each event once', ['a:12', 'b:345'], 0, 0],
  ['a batch twice in a row', ['a:12', 'a:12', 'b:345'], 0, 0],
  ['all from an earlier batch on again', ['a:12', 'b:34', 'a:12', 'c:345'], 0, 3],
  ['an event for the first time after a later one', ['a:13', 'b:2', 'c:45'], 1, 1],
  ['an old batch again after all others', ['a:12', 'b:345', 'a:12'], 2, 2],
];
for (const [what, batches, outOfOrder, late] of ORDERS)
  test(`the books of a subscriber that gets ${what}`, async (t) => {
    const totals = (await bookOrdered(t, ...batches)).totals();
    assert.deepEqual([totals.lost, totals.outOfOrder, totals.late], [0, outOfOrder, late]);
  });

test('the books count an event as lost if it came only under an id that was taken before', async (t) => {
  assert.equal((await bookOrdered(t, 'a:12', 'a:345')).totals().lost, 3);
  assert.equal((await bookOrdered(t, ':12', ':345')).totals().lost, 0);
});

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

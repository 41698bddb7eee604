import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, Receiver } from '../../harness/http/receiver.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { RUBY_EVENT, RUBY_EVENT_WITH_DATA, RUBY_JOB } from '../../harness/redis/ruby_redis.ts';
import { until } from '../../harness/until.ts';
import { packField } from '../../src/metrics/counter_hash.ts';
import type { Partition } from '../../src/store/partition.ts';

const [CREATED_AT_MS, UPDATED_AT_MS] = [1_795_166_913_608, 1_795_166_913_612];
/** `["events.published", [["topic", "widgets"]]]` */
const PUBLISHED = Buffer.from('92b06576656e74732e7075626c69736865649192a5746f706963a777696467657473', 'hex');

const [PUBLISHER, SUBSCRIBER] = [
  'pub--9a7b36337365a381402d000000000000',
  'sub--0b1c2d3e4f5061728394a5b6c7d8e9f0',
];
const [HELD, READY, CURRENT] = ['vHFAAGBX0UExbPAKqIDl', 'aaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbb'];
const DAY_MS = 86_400_000;
const [DEAD, LIVED] = ['deadworker0000000000', 'auxworker00000000000'];

/** MessagePack `["batch", [bid]]`. */
const delivery = (bid: string): Buffer =>
  Buffer.concat([Buffer.from('92a5626174636891b4', 'hex'), Buffer.from(bid)]);
const auxJob = (name: string): Buffer =>
  Buffer.concat([Buffer.from([0x92, 0xa0 | name.length]), Buffer.from(name), Buffer.from([0x90])]);

let receiver: Receiver;

const bus = RunningBus.forTests({ env: { ROUTEMASTER_WORKER_LEASE: '1' }, prepare: writeAsRubyDoes });

/**
 * Writes one publisher, and one subscriber with three batches: HELD, which a Ruby worker held when it died; READY,
 * which is full and two days old; and CURRENT. The subscriber refuses READY once.
 */
async function writeAsRubyDoes({ redis }: Partition): Promise<void> {
  receiver = await Receiver.start();
  receiver.usual = (response, { id, attempt }) =>
    answer.status(id === READY && attempt === 1 ? 500 : 204)(response);
  const nowMs = Date.now();
  await redis.sadd('topics', 'widgets');
  await redis.hset('topic:widgets', { publisher: PUBLISHER, counter: '41' });
  await redis.sadd('subscribers', SUBSCRIBER);
  await redis.hset(`subscriber:${SUBSCRIBER}`, {
    callback: receiver.callback,
    timeout: '500',
    max_events: '2',
    uuid: 'delivery-token',
    health_points: '96',
    last_attempted_at: String(nowMs - 60_000),
  });
  await redis.sadd(`topics:${SUBSCRIBER}`, 'widgets');
  await redis.sadd('subscribers:widgets', SUBSCRIBER);
  await redis.hset('api_tokens:by_token', { [PUBLISHER]: 'pub', [SUBSCRIBER]: 'sub' });

  const [created, updated] = [RUBY_EVENT, RUBY_EVENT_WITH_DATA];
  await redis.rpush(`batches:${HELD}`, SUBSCRIBER, String(nowMs - 60_000), '1', created, updated);
  await redis.rpush(`batches:${READY}`, SUBSCRIBER, String(nowMs - 2 * DAY_MS), '0', updated, created);
  await redis.rpush(`batches:${CURRENT}`, SUBSCRIBER, String(nowMs - 500), '0', created);
  await redis.sadd(`batches:current:${SUBSCRIBER}`, CURRENT);
  await redis.zadd('batches:index', nowMs - 60_000, HELD, nowMs - 2 * DAY_MS, READY, nowMs - 500, CURRENT);
  await redis.hset('batches:gauges:event', SUBSCRIBER, '5');
  await redis.hset('batches:gauges:batch', SUBSCRIBER, '3');

  assert.deepEqual(delivery(HELD), RUBY_JOB);
  await redis.sadd('jobs:index:main', delivery(HELD), delivery(READY), delivery(CURRENT));
  await redis.lpush(`jobs:pending:main:${DEAD}`, delivery(HELD));
  await redis.sadd('jobs:pending:index:main', DEAD);
  await redis.lpush('jobs:instant:main', delivery(READY));
  await redis.zadd('jobs:scheduled:main', nowMs + 700, delivery(CURRENT));

  const aux = ['autodrop', 'monitor', 'schedule', 'scrub_workers', 'scrub_queues'].map(auxJob);
  await redis.sadd('jobs:index:aux', ...aux);
  await redis.lpush('jobs:instant:aux', ...aux.slice(0, 3));
  await redis.zadd('jobs:scheduled:aux', nowMs, aux[3] as Buffer);
  await redis.lpush(`jobs:pending:aux:${LIVED}`, aux[4] as Buffer);
  await redis.sadd('jobs:pending:index:aux', LIVED);
  await redis.hset('workers', { [DEAD]: String(nowMs - 5000), [LIVED]: String(nowMs - 5000) });
  await redis.hset('counters', PUBLISHED, '41');
}

test('everything that was queued is delivered', async () => {
  await until(() => receiver.events.length === 5);
  const batches = new Map(receiver.deliveries.map((each) => [each.id, each]));
  const [url, topic] = ['https://a.example.com/w/1', 'widgets'];
  const created = { id: 'Sm-vP7v_ci4UICAV', topic, type: 'create', url, t: CREATED_AT_MS };
  const updated = {
    ...{ id: 'Kn_d7nmm9O-G6fvK', topic, type: 'update', url, t: UPDATED_AT_MS },
    data: { color: 'teal', n: 1, f: 1.5, z: null, b: true },
  };
  assert.deepEqual(batches.get(HELD)?.events, [created, updated]);
  assert.equal(batches.get(HELD)?.attempt, 2);
  assert.deepEqual(batches.get(READY)?.events, [updated, created]);
  assert.deepEqual(batches.get(CURRENT)?.events, [created]);
  assert.equal(batches.get(READY)?.headers.authorization, `Basic ${btoa('delivery-token:x')}`);
  assert.equal(receiver.deliveries.length, 4);
  assert.equal(batches.get(READY)?.attempt, 2, 'its age counts from the takeover');
});

test('no batch, job or worker of the Ruby Routemaster is left', async () => {
  const { redis } = bus.store;
  await until(async () => (await redis.exists('batches:index', 'batches:gauges:event')) === 0);
  // Which Redis it is has nothing to do with Ruby.
  assert.deepEqual(await redis.keys('batches:*'), ['batches:run']);
  assert.deepEqual(await redis.keys('batch:*'), []);
  assert.equal(await redis.exists('jobs:index:main'), 0);
  await until(async () => (await redis.hmget('workers', DEAD, LIVED)).every((heard) => heard === null));
});

test('its clients publish to their topics with their token and any password', async () => {
  const publisher = bus.clientOf(PUBLISHER, 'whatever');
  await publisher.publish('widgets', { url: 'https://a.example.com/w/2' });
  await publisher.publish('widgets', { url: 'https://a.example.com/w/3' });
  await until(() => receiver.events.length === 7);
  assert.deepEqual(receiver.urls.slice(-2), ['https://a.example.com/w/2', 'https://a.example.com/w/3']);
  const topics = await publisher.call('GET', '/topics');
  const widgets = { name: 'widgets', publisher: PUBLISHER, events: 43, delayed: 0, dropped: null };
  assert.deepEqual(topics, [widgets]);
  await assert.rejects(
    bus.clientOf(SUBSCRIBER, '').publish('widgets', { url: 'https://a.example.com/w/4' }),
    { status: 403 },
    'the topic is still the publisher’s',
  );
});

test('its clients are answered as they were', async () => {
  const web = await bus
    .process('web')
    .logs('answering as the Ruby Routemaster did; ROUTEMASTER_COMPATIBILITY=none ends that');
  assert.equal(web.compatibility, 'routemaster');
  const authorization = `Basic ${btoa(`${PUBLISHER}:x`)}`;
  const answer = await fetch(`${bus.url}/topics/gadgets`, {
    method: 'POST',
    headers: { authorization },
    body: '{"type":"noop","url":"https://a.example.com/g/1"}',
  });
  assert.deepEqual([answer.status, await answer.text()], [200, '']);
});

test('its subscribers are unchanged', async () => {
  const report = await until(async () => {
    const found = await bus.clientOf(SUBSCRIBER, 'x').report();
    return found.events.queued === 0 ? found : undefined;
  });
  assert.deepEqual(report.topics, ['widgets']);
  assert.deepEqual([report.max_events, report.timeout], [2, 500]);
  assert.equal(report.health_points, 98, '96, four batches taken and one refused');
  assert.deepEqual(report.events, { sent: 7, queued: 0, oldest: null });
});

test('its counters continue', async () => {
  assert.deepEqual(packField('events.published', { topic: 'widgets' }), PUBLISHED);
  await until(
    async () => (await bus.metric('routemaster_events_published_total', { topic: 'widgets' })) === 43,
  );
});

test('a second start changes nothing', async () => {
  await bus.process('worker').stop();
  const worker = await bus.start('worker');
  assert.ok(worker.log.every(({ msg }) => !/Ruby/.test(msg)));
  await receiver.stop();
});

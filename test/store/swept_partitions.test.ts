import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { beforeEach, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { JoinCalls } from '../../harness/scripts/join_calls.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { readConfig } from '../../src/config.ts';
import { periodicJobs } from '../../src/maintenance/periodic_jobs.ts';
import { Counters } from '../../src/metrics/counters.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { OwnerLimit } from '../../src/routing/owner_limit.ts';
import { packJob } from '../../src/store/job.ts';
import { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { TopicMarks } from '../../src/subscribing/topic_marks.ts';

const MINUTE_MS = 60_000;
const CONFIG = readConfig({ ROUTEMASTER_ROOT_KEY: 'root', ROUTEMASTER_WORKERS_PER_THREAD: '16' });
const redis = new TestStore();
beforeEach(() => redis.flush());

test('a sweep repairs what it can reach while the Redis of a partition is away, and ends', async (t) => {
  const other = await PrivateRedis.during(t);
  const { redis: away } = await openStore(other.url);
  t.after(() => away.disconnect());
  const on = (connection: typeof away, index: number) =>
    new Partition(connection, { prefix: `{${index}}:`, index, hasOthers: true });
  const near = redis.store.redis;
  const thirds = new Partitions(on(near, 0), on(away, 1), on(near, 2));
  const [here, , home] = thirds.all as [Partition, Partition, Partition];
  const marks = new TopicMarks(thirds);
  const topics = Array.from({ length: 40 }, (_, i) => `topic_${i}`);
  await marks.reserve(here, topics, 100);
  await new Bus(() => here).subscribe('bob', { topics });
  await marks.refresh(here, topics);
  const ofHome = topics.filter((topic) => thirds.ofTopic(topic) === home);
  const marked = () => Promise.all(ofHome.map((topic) => near.hexists(home.keys.topic(topic), 'elsewhere')));
  assert.ok((await marked()).length > 0 && (await marked()).every((each) => each === 1));
  // A failover has lost marks, and the job of an outbox.
  for (const topic of ofHome) await near.hdel(home.keys.topic(topic), 'elsewhere');
  await near.rpush(here.keys.outbox(), 'an entry');
  await other.kill();
  await until(() => away.status !== 'ready');
  await sweepOf(thirds, here, new Clients(here, []))();
  assert.ok((await marked()).every((each) => each === 1));
  assert.equal(await near.sismember(here.keys.jobs_index('aux'), packJob('outbox')), 1);
});

test('a sweep leaves the marks of a partition that has lost its data, until it has them again', async () => {
  const halves = Partitions.on(redis.store.redis, { partitions: 2 });
  const [here, other] = halves.all as [Partition, Partition];
  halves.ofTopic = () => here;
  halves.ofSubscriber = () => other;
  const marks = new TopicMarks(halves);
  await marks.reserve(other, ['widgets'], 100);
  await new Bus(() => other).subscribe('bob', { topics: ['widgets'] });
  await marks.refresh(other, ['widgets']);
  const marked = () => here.redis.hget(here.keys.topic('widgets'), 'elsewhere');
  const { keys, redis: away } = other;
  await away.del(keys.topic_subscribers('widgets'));
  await sweepOf(halves, here, new Clients(here, []))();
  assert.match((await marked()) ?? '', /^1:1:/);
  await away.set(keys.schema(), 2);
  await sweepOf(halves, here, new Clients(here, []))();
  assert.equal(await marked(), null);
});

test('a sweep that ends a join of a client, whose change was cut off, deletes its dead letters', async () => {
  const partitions = Partitions.on(redis.store.redis, { partitions: 4 });
  const { control } = partitions;
  const partition = partitions.ofSubscriber('shop');
  assert.notEqual(partition, control);
  await new Clients(control, [], [partition]).register('shop', 'shop');
  const bus = new Bus(() => partition);
  await new JoinCalls(bus).put('order', { sources: [{ topic: 'paid', count: 1 }] });
  await bus.publish('a', 'paid', ['{}']);
  await buryAll(partition);
  const letters = () => partition.redis.zcard(partition.keys.dead_letters_index());
  assert.equal(await letters(), 1);
  await new Clients(control, []).register('shop', 'shop', { publish: ['gadgets'] });
  await sweepOf(partitions, partition, new Clients(control, []))();
  assert.deepEqual([await partition.redis.scard(partition.keys.joins()), await letters()], [0, 0]);
});

/** Returns a function that sweeps a partition once. */
function sweepOf(partitions: Partitions, partition: Partition, clients: Clients): () => Promise<unknown> {
  const { log } = capturedLog();
  const { signal: stopping } = new AbortController();
  const jobs = periodicJobs({
    partition,
    partitions,
    publicNames: new PublicNames(clients, new NameKey(partitions.control)),
    recorder: new Recorder(new Counters(partitions, { flushIntervalMs: MINUTE_MS, log })),
    log,
    oneAtATime: new OwnerLimit(1),
    stopping,
    config: CONFIG,
  });
  const job = jobs.find(({ name }) => name === 'sweep');
  assert.ok(job);
  return () => job.run(stopping);
}

/** Maximum commands of a sweep. Every five minutes, they are 0.16 a second; the rest of an idle bus sends 0.65. */
const MAX_OF_SWEEP = 48;

test('a sweep of an idle partition sends few commands, whatever the number of clients', async (t) => {
  const partitions = Partitions.on(redis.store.redis, { partitions: 16 });
  const clients = new Clients(partitions.control, [], partitions.all.slice(1));
  for (let n = 0; n < 20; n++) await clients.create('shop');
  const partition = partitions.all.at(-1) as Partition;
  const sweep = sweepOf(partitions, partition, clients);
  await sweep(); // loads the functions
  const monitor = connect(redis.redis.socketPath ?? '');
  t.after(() => monitor.destroy());
  let text = '';
  monitor.setEncoding('latin1').on('data', (chunk) => {
    text += chunk;
  });
  monitor.write('MONITOR\r\n');
  await until(() => text !== '');
  await sweep();
  await redis.store.redis.echo('over');
  await until(() => text.includes('"over"'));
  const sent = text.split('\r\n').filter((line) => /^\+\S+ \[\d+ (?!lua)/.test(line));
  assert.ok(sent.length > 10 && sent.length <= MAX_OF_SWEEP, `${sent.length}:\n${sent.join('\n')}`);
});

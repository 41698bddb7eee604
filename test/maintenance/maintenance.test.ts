import assert from 'node:assert/strict';
import { test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { nameIn } from '../../harness/scripts/crossing.ts';
import { jobName, nthWord } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { readConfig } from '../../src/config.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { Maintenance } from '../../src/maintenance/maintenance.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { Outbox } from '../../src/publishing/outbox.ts';
import { OwnerLimit } from '../../src/routing/owner_limit.ts';
import { Listener } from '../../src/store/listener.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { Wakeups } from '../../src/store/wakeups.ts';
import { marksIn, TopicMarks } from '../../src/subscribing/topic_marks.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const BATCHES = 10_000;

test('a stopping process does not wait for a sweep to finish', async () => {
  const { store } = redis;
  await bus.subscribe('alice', { max: 1 });
  for (let n = 0; n < BATCHES; n += 1000)
    await bus.publish(nthWord(n / 1000), 'widgets', Array(1000).fill('e'));
  // A sweep looks at gauges last.
  await store.redis.hincrby(store.keys.gauge_events(), 'alice', 1);
  const { maintenance, lines, held } = begin(new Partitions(store), store);
  await until(async () => (await held()).includes('sweep'), { everyMs: 5 });
  await maintenance.stop(60_000);
  assert.equal(await store.redis.hget(store.keys.gauge_events(), 'alice'), String(BATCHES + 1));
  assert.deepEqual(await held(), []);
  assert.ok(!lines.some(({ msg }) => /sweep/.test(String(msg))));
});

test('a process scrubs the last partition before it is the turn of that one', async (t) => {
  await redis.flush();
  const partitions = Partitions.on(redis.store.redis, { partitions: 4 });
  const last = partitions.all.at(-1) ?? assert.fail();
  const { keys } = last;
  const there = new Bus(() => last);
  await there.subscribe('alice', { max: 1 });
  await there.publish('a', 'widgets', ['e1']);
  await there.acquire(['w1']);
  await last.redis.hset(keys.workers(), 'w1', 0);
  const { maintenance } = begin(partitions, last);
  t.after(() => maintenance.stop(60_000));
  const isGivenBack = async () => (await last.redis.exists(keys.jobs_pending('main', 'w1'))) === 0;
  await until(isGivenBack, { everyMs: 1, what: 'the scrub has given the batch back' });
  const queued = (await last.redis.smembersBuffer(keys.jobs_index('aux'))).map(jobName);
  const others = queued.filter((name) => name !== 'scrub');
  assert.deepEqual(others, [], 'the jobs that wait for their turn are not there');
});

test('a process says that Redis has lost the data of the bus', async (t) => {
  await redis.flush();
  const { maintenance, lines } = begin(new Partitions(redis.store), redis.store);
  t.after(() => maintenance.stop(60_000));
  await until(() => lines.some(({ msg }) => /lost the data of the bus/.test(String(msg))), { everyMs: 5 });
});

test('a job that lacks a command waits for its next tick, and the log says so', async (t) => {
  await redis.flush();
  const { redis: commands, keys } = redis.store;
  await commands.acl('SETUSER', 'default', '-hscan');
  const { maintenance, lines } = begin(new Partitions(redis.store), redis.store);
  t.after(async () => {
    await commands.acl('SETUSER', 'default', '+@all');
    await maintenance.stop(60_000);
  });
  const refusal = () => lines.find(({ job }) => job === 'sweep');
  await until(() => refusal() !== undefined);
  assert.match(String(refusal()?.reason), /NOPERM/);
  await until(async () => {
    const queued = (await commands.smembersBuffer(keys.jobs_index('aux'))).map(jobName);
    return !queued.includes('sweep');
  });
});

test('a sweep mends what crosses partitions although another program has written keys', async (t) => {
  await redis.flush();
  const partitions = Partitions.on(redis.store.redis, { partitions: 4 });
  const [home, partition] = partitions.all as [Partition, Partition];
  const [topic, other] = ['orders', 'others'].map((stem) => nameIn(partitions, 0, stem)) as [string, string];
  const { redis: commands, keys } = partition;
  for (const token of ['alice', 'bob', 'carol']) await commands.sadd(keys.subscribers(), token);
  for (const name of [topic, other]) {
    await commands.sadd(keys.subscriber_topics('alice'), name);
    await commands.sadd(keys.topic_subscribers(name), 'alice');
  }
  await commands.set(keys.subscriber_topics('bob'), 'not a set');
  await commands.set(home.keys.topic(other), 'not a hash');
  await commands.hset(home.keys.api_tokens(), 'dave', 'shop');
  await commands.set(home.keys.api_token('dave'), 'not a hash');
  const { maintenance } = begin(partitions, partition);
  t.after(() => maintenance.stop(60_000));
  const { laneLimit, laneLimitMax, leaseMs, deliveryLog } = readConfig({ ROUTEMASTER_ROOT_KEY: 'root' });
  await new Queue(partition, 'aux', { laneLimit, laneLimitMax, leaseMs, deliveryLog }).enqueue('sweep');
  await until(async () => marksIn(await commands.hget(home.keys.topic(topic), 'elsewhere')).has(1));
});

/** Starts the maintenance of a partition. */
function begin(partitions: Partitions, partition: Partition) {
  const { log, lines } = capturedLog();
  const wakeups = new Wakeups(new Listener(redis.store.redis), partition.keys);
  const recorder = new Recorder({ increment: () => {} });
  const outbox = new Outbox({
    confirmed: partitions,
    ...{ recorder, marks: new TopicMarks(partitions), limits: PUBLISH_LIMITS, log },
  });
  const maintenance = new Maintenance(readConfig({ ROUTEMASTER_ROOT_KEY: 'root' }), {
    partition,
    ...{ partitions, confirmed: partitions },
    outbox,
    publicNames: new PublicNames(new Clients(partitions.control, []), new NameKey(partitions.control)),
    wakeups,
    recorder,
    oneAtATime: new OwnerLimit(1),
    log,
  });
  maintenance.start();
  const held = async () => {
    const { redis, keys } = partition;
    const lists = await redis.keys(keys.jobs_pending('aux', '*'));
    const jobs = await Promise.all(lists.map((list) => redis.lrangeBuffer(list, 0, -1)));
    return jobs.flat().map(jobName);
  };
  return { maintenance, lines, held };
}

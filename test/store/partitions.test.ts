import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { batchHandler } from '../../harness/batch_handler.ts';
import { capturedLog } from '../../harness/captured_log.ts';
import { Receiver } from '../../harness/http/receiver.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { shortName } from '../../harness/scripts/names.ts';
import { DEFAULTS, NO_OUTBOX, subscribersIn } from '../../harness/subscriptions.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { readConfig } from '../../src/config.ts';
import type { ApiCalls } from '../../src/console/api_calls.ts';
import { overviewPage } from '../../src/console/overview_page.ts';
import { DeadLetters } from '../../src/delivering/dead_letters/dead_letters.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { ThreadWorkers, workersOfPartition } from '../../src/delivering/thread_workers.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import { Joins } from '../../src/flow/joins/joins.ts';
import { Maintenance } from '../../src/maintenance/maintenance.ts';
import { sampleJob } from '../../src/maintenance/sampling.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import { Counters } from '../../src/metrics/counters.ts';
import { collectFigures } from '../../src/metrics/figures.ts';
import { readGauges } from '../../src/metrics/gauges.ts';
import { History, STEPS } from '../../src/metrics/history.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { unpackStandings } from '../../src/metrics/standings.ts';
import { Outbox } from '../../src/publishing/outbox.ts';
import { Deliveries } from '../../src/records/deliveries.ts';
import { Jobs } from '../../src/records/jobs.ts';
import { OwnerLimit } from '../../src/routing/owner_limit.ts';
import type { Call } from '../../src/routing/route.ts';
import { packJob } from '../../src/store/job.ts';
import { Listener } from '../../src/store/listener.ts';
import { Partition } from '../../src/store/partition.ts';
import { firstFound, Partitions } from '../../src/store/partitions.ts';
import { Wakeups } from '../../src/store/wakeups.ts';
import { Topics } from '../../src/subscribing/topic.ts';
import { TopicMarks } from '../../src/subscribing/topic_marks.ts';

/** Two partitions: subscribers and topics are in the first or the second half of the alphabet. */
class Halves extends Partitions {
  override ofSubscriber = (token: string) => this.all[token < 'n' ? 0 : 1] as Partition;
  override ofTopic = (name: string) => this.all[name < 'n' ? 0 : 1] as Partition;
}

/** Two partitions as above, but each in a Redis of its own, as on a cluster. */
class Apart extends Halves {
  override byRedis = (): [Partition, ...Partition[]][] => this.all.map((each) => [each]);
}

const redis = new TestStore();
beforeEach(() => redis.flush());

test('listings, gauges and dead letters cover all partitions', async () => {
  const partitions = ['{0}:', '{1}:'].map((prefix) => new Partition(redis.store.redis, { prefix }));
  const halves = new Halves(...(partitions as [Partition, Partition]));
  for (const [token, topic, seed] of [
    ['bob', 'apples', 'a'],
    ['zoe', 'zebras', 'z'],
  ] as const) {
    const bus = new Bus(() => halves.ofSubscriber(token));
    await bus.subscribe(token, { topics: [topic], max: 1 });
    await bus.publish(seed, topic, ['e1']);
    await buryAll(bus.store);
    await bus.publish(`${seed}b`, topic, ['e2', 'e3']);
  }

  const letters = new DeadLetters(halves, DEFAULTS, () => {});
  const subscribers = await subscribersIn(halves).list();
  assert.deepEqual(
    subscribers.map(({ subscriber, events }) => [subscriber, events.queued]),
    [
      ['bob', 2],
      ['zoe', 2],
    ],
  );
  assert.deepEqual(
    (await new Topics(halves, NO_OUTBOX).list()).map(({ name, events }) => [name, events]),
    [
      ['apples', 3],
      ['zebras', 3],
    ],
  );
  const gauges = await readGauges(halves, { redisMaxBytes: 0, redisMinFreeBytes: 0, leaseMs: 30_000 });
  assert.equal(gauges.queues.find(({ queue }) => queue === 'main')?.instant, 4);
  assert.equal(gauges.subscribers.length, 2);

  const deliveries = new Deliveries(halves);
  const { deliveries: page, next } = await deliveries.list({ state: 'dead' }, 1);
  assert.deepEqual(
    page.map(({ id }) => shortName(id)),
    ['z1'],
    'the newest first',
  );
  const rest = await deliveries.list({ state: 'dead', after: next }, 1);
  assert.deepEqual(
    rest.deliveries.map(({ id }) => shortName(id)),
    ['a1'],
  );
  assert.equal(rest.next, undefined);
  const [newest] = page;
  assert.equal((await deliveries.find(newest?.id ?? '')).delivery?.subscriber, 'zoe');
  assert.equal((await deliveries.find(newest?.id ?? '', ['bob'])).delivery, undefined);
  assert.equal(await letters.retry(newest ?? assert.fail()), 'ok');
  assert.equal(await letters.purge(newest?.id ?? ''), false);
});

const MINUTE_MS = 60_000;
const LIMITS = { redisMaxBytes: 0, redisMinFreeBytes: 0, minReplicas: 1, leaseMs: 30_000 };
const CONFIG = readConfig({ ROUTEMASTER_ROOT_KEY: 'root', ROUTEMASTER_WORKERS_PER_THREAD: '16' });
/** A subscriber and a topic of each of four partitions. */
const THINGS = [
  ['bob', 'gears'],
  ['b', 'widgets'],
  ['gadgets', 'gadgets'],
  ['alice', 'nuts'],
] as const;

test('workers, jobs and figures of several partitions', async (t) => {
  const partitions = Partitions.on(redis.store.redis, { partitions: THINGS.length });
  const { log } = capturedLog();
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  const counters = new Counters(partitions, { flushIntervalMs: MINUTE_MS, log });
  const recorder = new Recorder(counters);
  const { control } = partitions;
  const { handler, close } = batchHandler(control, log, { recorder });
  t.after(close);
  const publicNames = new PublicNames(new Clients(control, []), new NameKey(control));
  const shared = { partitions, confirmed: partitions, publicNames, recorder, log };
  const outboxParts = { confirmed: partitions, recorder, marks: new TopicMarks(partitions) };
  const outbox = new Outbox({ ...outboxParts, limits: PUBLISH_LIMITS, log });
  const oneAtATime = new OwnerLimit(1);
  const settings = { ...CONFIG, workers: workersOfPartition(CONFIG, partitions) };
  assert.equal(settings.workers, 4);

  const parts = partitions.all.map((partition) => {
    const workers = new ThreadWorkers(partition, { handler, recorder, log, onIdle: () => {} }, settings);
    const wakeups = new Wakeups(new Listener(redis.store.redis), partition.keys);
    wakeups.on('main', () => workers.wake());
    const maintenance = new Maintenance(CONFIG, { ...shared, partition, wakeups, outbox, oneAtATime });
    return { workers, maintenance };
  });
  const stop = () =>
    Promise.all(parts.flatMap(({ workers, maintenance }) => [workers.stop(0), maintenance.stop(0)]));
  t.after(stop);
  for (const [place, [token, topic]] of THINGS.entries()) {
    const home = partitions.all[place] as Partition;
    assert.deepEqual([partitions.ofSubscriber(token), partitions.ofTopic(topic)], [home, home]);
    await new Bus(() => home).subscribe(token, { topics: [topic], max: 1, timeout: 0 });
    await home.redis.hset(home.keys.subscriber(token), 'callback', receiver.callback);
  }
  for (const { workers, maintenance } of parts) {
    workers.start();
    maintenance.start();
  }

  for (const [place, [, topic]] of THINGS.entries()) {
    const bus = new Bus(() => partitions.all[place] as Partition);
    await bus.publish(String(place), topic, [`{"id":"${topic}"}`, `{"id":"${topic}"}`]);
    recorder.published(topic, 2, 100);
  }
  await until(() => receiver.deliveries.length === 2 * THINGS.length);
  for (const partition of partitions.all)
    for (const job of ['sweep', 'scrub', 'autodrop']) await new Queue(partition, 'aux', CONFIG).enqueue(job);
  const jobs = new Jobs(partitions);
  await until(async () => (await jobs.page({}, 100)).jobs.length === 0);
  await counters.flush();
  // There may be a sample from before the flush already.
  await control.redis.del(control.keys.history_fine('bus'), control.keys.standings());
  await sampleJob({ config: CONFIG, partitions, log })();

  const figures = await collectFigures({ ...shared, limits: LIMITS });
  const sumOf = (name: string) =>
    figures.filter((each) => each.name === name).reduce((sum, { value }) => sum + value, 0);
  assert.deepEqual([sumOf('events.published'), sumOf('delivery.events'), sumOf('sweep.findings')], [8, 8, 0]);
  // Each partition has 4 workers of the thread, 2 spare ones, and 3 of `aux`.
  assert.deepEqual(
    [sumOf('workers.count'), sumOf('delivery.workers')],
    [9 * THINGS.length, 6 * THINGS.length],
  );
  const { figures: ofBus } = (await new History(partitions).latest()) ?? {};
  assert.deepEqual([ofBus?.published, ofBus?.delivered, ofBus?.subscribers], [8, 8, 4]);
  for (const [place, [token, topic]] of THINGS.entries()) {
    const { redis, keys } = partitions.all[place] as Partition;
    const histories = [keys.history_fine(`topic:${topic}`), keys.history_fine(`subscriber:${token}`)];
    assert.equal(await redis.exists(...histories), 2, topic);
  }

  await stop();
  for (const partition of partitions.all) {
    assert.deepEqual(await sweep(partition), []);
    await assertConsistent(partition);
  }
});

test('figures and history have what the others know while a partition is away', async (t) => {
  const other = await PrivateRedis.during(t);
  const { redis: away } = await openStore(other.url);
  t.after(() => away.disconnect());
  const options = (index: number) => ({ prefix: `{${index}}:`, index, hasOthers: true });
  const halves = new Apart(new Partition(redis.store.redis, options(0)), new Partition(away, options(1)));
  const { log } = capturedLog();
  const counters = new Counters(halves, { flushIntervalMs: MINUTE_MS, log });
  const recorder = new Recorder(counters);
  const publicNames = new PublicNames(new Clients(halves.control, []), new NameKey(halves.control));
  for (const [token, topic] of [
    ['bob', 'apples'],
    ['zoe', 'zebras'],
  ] as const) {
    await new Bus(() => halves.ofSubscriber(token)).subscribe(token, { topics: [topic] });
    await new Bus(() => halves.ofTopic(topic)).publish(token, topic, ['e1', 'e2']);
    recorder.published(topic, 2, 100);
  }
  await counters.flush();
  const { redis: near, keys } = halves.control;
  const nowMs = async () => Number((await near.time())[0]) * 1000;
  const shownParts = { api: { nowMs } as ApiCalls, limits: LIMITS };
  const sample = sampleJob({ config: CONFIG, partitions: halves, log });
  const latest = async () => (await new History(halves).latest())?.figures;
  const figures = async () => {
    const all = await collectFigures({ partitions: halves, publicNames, log, limits: LIMITS });
    const valuesOf = (name: string) => all.filter((each) => each.name === name).map(({ value }) => value);
    return { up: valuesOf('partition.up'), published: valuesOf('events.published') };
  };
  await sample();
  assert.deepEqual(await figures(), { up: [1, 1], published: [2, 2] });
  assert.deepEqual([(await latest())?.published, (await latest())?.subscribers], [4, 2]);

  await other.kill();
  await until(() => away.status !== 'ready');
  assert.deepEqual(await figures(), { up: [1, 0], published: [2] });
  // Makes the last sample a step older, as if time had passed.
  const wait = async () => {
    await near.del(keys.history_fine('bus'));
    const { atMs, ...rest } = JSON.parse((await near.get(keys.standings())) ?? '');
    await near.set(keys.standings(), JSON.stringify({ ...rest, atMs: atMs - STEPS.fine.ms }));
  };
  for (let times = 0; times < 2; times++) {
    await wait();
    await sample();
  }
  assert.deepEqual([(await latest())?.published, (await latest())?.subscribers], [4, 1]);
  await assert.rejects(new Topics(halves, NO_OUTBOX).list(), /partition 1 is away/);
  assert.deepEqual(await new Topics(halves, NO_OUTBOX).subscribers('apples'), { count: 1, tokens: ['bob'] });
  assert.deepEqual(await new Joins(halves, CONFIG).tokens('bob'), []);
  const overview = overviewPage({ ...shownParts, partitions: halves, history: new History(halves) });
  const { body } = await overview.handle({ query: { part: 'now' }, headers: {} } as Call);
  assert.match(String(body), /Partition 1 is away\./);
  assert.match(String(body), /Too few replicas follow Redis: 0 of 1\./);

  await other.restart();
  await until(() => away.status === 'ready');
  await wait();
  await sample();
  // The other Redis writes no files, so it has come back empty.
  assert.deepEqual([(await latest())?.published, await figures()], [2, { up: [1, 1], published: [2] }]);
  assert.equal(unpackStandings((await near.get(keys.standings())) ?? '')?.partitions?.length, 2);
});

test('a partition whose Redis refuses writes keeps no other one from its history', async (t) => {
  const other = await PrivateRedis.during(t);
  const { redis: refusing } = await openStore(other.url);
  t.after(() => refusing.disconnect());
  const on = (connection: typeof refusing, index: number) =>
    new Partition(connection, { prefix: `{${index}}:`, index, hasOthers: true });
  const near = redis.store.redis;
  const thirds = new Partitions(on(near, 0), on(refusing, 1), on(near, 2));
  thirds.ofTopic = (name) => thirds.all[name === 'refused' ? 1 : 2] as Partition;
  const { log } = capturedLog();
  const counters = new Counters(thirds, { flushIntervalMs: MINUTE_MS, log });
  for (const [topic, events] of [
    ['refused', 9],
    ['taken', 1],
  ] as const) {
    await new Bus(() => thirds.ofTopic(topic)).publish('a', topic, ['e1']);
    new Recorder(counters).published(topic, events, 100);
  }
  await counters.flush();
  await refusing.config('SET', 'min-replicas-to-write', 1);
  await assert.rejects(sampleJob({ config: CONFIG, partitions: thirds, log })(), StorageUnavailable);
  const { keys } = thirds.ofTopic('taken');
  assert.equal(await near.exists(keys.history_fine('topic:taken')), 1);
});

test('without names only numbers of subscribers are shown, whose tokens may be credentials', async () => {
  const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
  const { log } = capturedLog();
  const { redis: raw, keys } = partitions.ofSubscriber('bob');
  await new Bus(() => partitions.ofSubscriber('bob')).subscribe('bob');
  await raw.hset(keys.subscriber('bob'), { paused_at: 1, paused_by: 'operator' });
  const publicNames = {
    of: () => Promise.reject(new StorageUnavailable(undefined)),
  } as unknown as PublicNames;
  const figures = await collectFigures({ partitions, publicNames, log, limits: LIMITS });
  assert.doesNotMatch(JSON.stringify(figures.map(({ name, tags }) => [name, tags])), /bob|subscriber\.queue/);
  const paused = figures.find(({ name, tags }) => name === 'subscribers.paused' && tags.by === 'operator');
  assert.equal(paused?.value, 1);
});

test('what may be in any partition is looked for in all at once, since each that hangs takes 5 s', async () => {
  const asked: string[] = [];
  const found = firstFound(['hangs', 'hangs too', 'has it'], async (place) => {
    asked.push(place);
  });
  assert.deepEqual(asked, ['hangs', 'hangs too', 'has it']);
  assert.equal(await found, undefined);
  const { promise, reject } = Promise.withResolvers<undefined>();
  const look = async (place: string) => (place === 'hangs' ? promise : place === 'has it' ? 'it' : undefined);
  assert.equal(await firstFound(['hangs', 'has none', 'has it'], look), 'it');
  const unknown = firstFound(['hangs', 'has none'], look);
  reject(new StorageUnavailable(undefined));
  await assert.rejects(unknown, StorageUnavailable, 'the partition that is away may have it');
});

test('an error of a look is thrown if nothing is found, also if a partition is away', async () => {
  const look = async (place: string) => {
    if (place === 'away') throw new StorageUnavailable(undefined);
    if (place === 'wrong') throw new TypeError('wrong');
    return place === 'has it' ? place : undefined;
  };
  await assert.rejects(firstFound(['away', 'has none', 'wrong'], look), TypeError);
  assert.equal(await firstFound(['away', 'wrong', 'has it'], look), 'has it');
});

test('a job is named with its partition, since several may have it', async () => {
  const partitions = Partitions.on(redis.store.redis, { partitions: 3 });
  const jobs = new Jobs(partitions);
  for (const { redis, keys } of partitions.all) {
    await redis.sadd(keys.jobs_index('aux'), packJob('sweep'));
    await redis.zadd(keys.jobs_scheduled('aux'), Date.now() + MINUTE_MS, packJob('sweep'));
  }
  const { jobs: listed } = await jobs.page({}, 10);
  assert.deepEqual(
    listed.map(({ partition }) => partition),
    [0, 1, 2],
  );
  assert.equal(await jobs.run(listed[1]?.id ?? ''), 'ok');
  const { jobs: now } = await jobs.page({ state: 'instant' }, 10);
  assert.deepEqual(
    now.map(({ id }) => id),
    [listed[1]?.id],
  );
  assert.equal(await jobs.run(listed[1]?.id.replace('.1-', '-') ?? ''), 'ok', 'without a number, the first');
  assert.equal(await jobs.run(listed[1]?.id.replace('.1-', '.3-') ?? ''), 'job_not_found');
});

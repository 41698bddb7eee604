import { Bus } from '../../harness/scripts/bus.ts';
import { JoinCalls, joinEvent } from '../../harness/scripts/join_calls.ts';
import { nthWord, packNamed } from '../../harness/scripts/names.ts';
import { putTrigger } from '../../harness/scripts/triggers.ts';
import { packField } from '../../src/metrics/counter_hash.ts';
import { totalField } from '../../src/metrics/series.ts';
import type { Partition } from '../../src/store/partition.ts';

interface Sizes {
  subscribers: number;
  topics: number;
  /** Number of publishes, of 20 events each, to the topics in turn. Each subscriber has two topics. */
  publishes: number;
  delayed: number;
  triggers: number;
}

const HOUR_MS = 3_600_000;
const EVENTS = 20;
const laneLimit = 2;
const topicOf = (n: number) => `topic${n}`;

/** Fills Redis with the data of a stopped bus that has things of every kind in every state. */
export async function fillBus(store: Partition, sizes: Sizes): Promise<void> {
  const bus = new Bus(() => store);
  await addClients(store);
  await subscribeAll(bus, sizes);
  await addSuspect(bus);
  await addJoins(bus);
  let seed = 0;
  const publish = async (count: number) => {
    for (let i = 0; i < count; i++, seed++) {
      const topic = topicOf(seed % sizes.topics);
      const events = Array.from({ length: EVENTS }, (_, k) => `{"id":"e${seed}-${k}","topic":"${topic}"}`);
      await bus.publish(nthWord(seed), topic, events);
    }
  };
  await publish(Math.floor(sizes.publishes / 2));
  await work(bus);
  await publish(Math.ceil(sizes.publishes / 2));
  await bus.autodropStep(3, undefined, [{ token: 'client2', maxDeleted: 3 }]);
  await addAgenda(bus, sizes);
  await addFigures(store);
  await stop(bus);
}

async function subscribeAll(bus: Bus, { subscribers, topics }: Sizes): Promise<void> {
  for (let i = 0; i < subscribers; i++)
    await bus.subscribe(`client${i}`, {
      topics: [topicOf(i % topics), topicOf((i * 7 + 1) % topics)],
      max: i % 3 === 0 ? 10 : 100,
      timeout: i % 4 === 0 ? HOUR_MS : 0,
      ordered: i % 5 === 0 ? 1 : 0,
      proven: i % 6 !== 0,
    });
  await bus.pause('client1');
}

/** Makes joins that have open keys, and batches that wait to be counted. */
async function addJoins(bus: Bus): Promise<void> {
  const joins = new JoinCalls(bus);
  const paidAndPacked = {
    sources: [
      { topic: 'paid', count: 1 },
      { topic: 'packed', count: 2 },
    ],
  };
  for (const name of ['order', 'parcel', 'letter']) {
    await joins.put(name, { ...paidAndPacked, then: { topic: `${name}_ready`, type: 'update' } });
    const events = ['A', 'B', 'C'].map((key) => joinEvent('paid', key));
    if (name === 'order') {
      await bus.publish(`join${name}`, 'paid', events);
      await joins.work(name);
    }
  }
  await bus.publish('joinmore', 'packed', [joinEvent('packed', 'A')]);
}

async function addSuspect(bus: Bus): Promise<void> {
  await bus.subscribe('killed', { topics: ['deadly'], max: 2 });
  await bus.publish('deadly', 'deadly', ['e1', 'e2']);
  for (const worker of ['x1', 'x2']) {
    await bus.acquire([worker]);
    await bus.scrub(-1);
  }
}

/** Has workers finish, fail and bury some jobs, and die with others. */
async function work(bus: Bus): Promise<void> {
  const workers = Array.from({ length: 16 }, (_, index) => `w${index}`);
  const { grants } = await bus.acquire(workers, { laneLimit });
  for (const [index, { worker, job }] of grants.entries()) {
    if (!/\d$/.test(job)) continue;
    if (index % 4 === 0) await bus.ack(worker, job, { laneLimit });
    if (index % 4 === 1) await bus.nack(worker, job, { delayMs: HOUR_MS, attempt: '{"at":1600000000000}' });
    if (index % 4 === 2) await bus.bury(worker, job, { attempt: '{"at":1600000000000}' });
  }
  await bus.acquire(['a1'], { q: 'aux' });
}

/** Adds delayed events and triggers. */
async function addAgenda(bus: Bus, { topics, delayed, triggers }: Sizes): Promise<void> {
  for (let i = 0; i < delayed; i += 100)
    await bus.delay(
      'delayed',
      topicOf((i / 100) % topics),
      Array.from({ length: Math.min(100, delayed - i) }, (_, k) => ({ id: `d${i + k}`, delay: HOUR_MS + k })),
      {
        key: { digest: `key${i}`.padEnd(22, '-'), fingerprint: 'f'.repeat(16) },
        // The limit is low enough that the quota has not refilled, and has not expired, while the test runs.
        limits: { maxClientKeys: Math.ceil(delayed / 50) },
      },
    );
  for (let i = 0; i < triggers; i++)
    await putTrigger(bus.store, `trigger${i}`, { topic: topicOf(i % topics), paused: i % 3 === 0 });
}

/** Adds clients with secrets and sessions, and the keys that their calls leave. */
async function addClients(store: Partition): Promise<void> {
  const { redis, keys } = store;
  for (const token of ['shop', 'office']) {
    const scopes = [{ of: 'publish', patterns: 'topic* paid packed' } as const];
    await store.run('register_client', {
      token,
      name: `the ${token}`,
      keepsName: false,
      scopes: token === 'shop' ? scopes : [],
    });
    await redis.hset(keys.api_token(token), 'ha1_sha256', 'a', 'ha1_md5', 'b');
    await redis.hset(keys.former_secret(token), 'ha1_sha256', 'c');
    await store.run('begin_session', {
      ...{ owner: token, digest: token.padEnd(43, '-'), session: '{}', lifetimeMs: HOUR_MS, max: 20 },
    });
  }
  await store.run('name_key', { key: Buffer.alloc(32, 1) });
  await store.run('nonce_keys', { keyOfThisHour: Buffer.alloc(32, 2), keyOfNextHour: Buffer.alloc(32, 3) });
  const call = { maxEntries: 100, role: 'root', client: undefined, target: undefined, address: '::1' };
  for (const action of ['one', 'two'])
    await store.run('record_call', { ...call, action, status: 204, code: undefined });
  await store.run('spend', {
    ...{ burstMs: 1_000_000, eventsPerSecond: 1, bytesPerSecond: 1 },
    demands: [{ client: 'shop', events: 1000, bytes: 1000, isAdmitted: true }],
  });
  await redis.set(keys.schema(), 2);
}

/** Adds counters and histories. */
async function addFigures(store: Partition): Promise<void> {
  const counted = [
    { topic: 'topic0', ...fieldsOf('events.published', { topic: 'topic0' }) },
    { subscriber: 'client0', ...fieldsOf('delivery.events', { queue: 'client0', status: 'success' }) },
    fieldsOf('process', { status: 'start', type: 'web' }),
  ];
  await store.run('count', {
    process: 'p',
    flush: 1,
    counts: counted.map((each) => ({ ...each, count: 7 })),
  });
  const steps = { fineMs: 10_000, fineKept: 361, coarseMs: 300_000, coarseKept: 577 };
  const figures = { figures: [1, 2, 3], before: [] };
  await store.run('sample', {
    ...steps,
    beforeMs: 0,
    samples: [figures, { topic: 'topic0', ...figures }, { subscriber: 'client0', ...figures }],
  });
  const reports = counted.map(({ field }) => ({ field, from: 0, to: 5 }));
  await store.run('report', { reports });
}

function fieldsOf(name: string, tags: Record<string, string>) {
  return { field: packField(name, tags), total: totalField(name, tags) };
}

/** Adds the keys that processes leave behind which were killed long ago. */
async function stop({ store }: Bus): Promise<void> {
  const { redis, keys } = store;
  const longAgo = Date.now() - HOUR_MS;
  for (const worker of await redis.hkeys(keys.workers())) await redis.hset(keys.workers(), worker, longAgo);
  await redis.sadd(keys.jobs_index('aux'), packNamed('sweep'));
  await redis.lpush(keys.jobs_instant('aux'), packNamed('sweep'));
}

import { once } from 'node:events';
import type { Credentials } from '../harness/http/bus_client.ts';
import { readConfig } from '../src/config.ts';
import { Queue } from '../src/delivering/queue.ts';
import { uidSeed } from '../src/ids.ts';
import { createLog } from '../src/log.ts';
import { sampleJob } from '../src/maintenance/sampling.ts';
import { connect } from '../src/store/connection.ts';
import { Partition } from '../src/store/partition.ts';
import { Partitions } from '../src/store/partitions.ts';
import { Bus, FAR_MS, NOWHERE, ROOT_KEY } from './bus.ts';
import type { Stage } from './stage.ts';
import { TOPIC } from './workload.ts';

/** Number of batches that a script call opens. */
const SLICE = 250;
/** Batches that a subscriber takes at a time. */
const TAKEN = 25;
const EVENT =
  '{"id":"V1StGXR8_Z5jdHi6","topic":"widgets","type":"update","url":"https://billing.example.com/invoices/1842201","t":1767225600000}';
/** Maximum deliveries in flight: as many as 16 worker processes have with default settings. */
const MAX_IN_FLIGHT = 1000;
/** Settings of the queue: a lane has room for all batches of a script call, and leases do not end. */
const QUEUE = { laneLimit: SLICE, laneLimitMax: SLICE, leaseMs: FAR_MS, deliveryLog: 10_000_000 };

/** What the filled bus contains. */
interface Size {
  /** Queued batches. */
  queued: number;
  /** Records of batches that were taken. */
  records: number;
  subscribers: number;
  /** Dead letters of each subscriber but the first. */
  deadLetters: number;
}

interface FullBus {
  bus: Bus;
  clients: Credentials[];
  /** A time before which half of the records were made. */
  middleMs: number;
}

/**
 * Starts a bus and fills it. Half of the queued batches belong to one subscriber, which is paused. Each of the other
 * subscribers has records, a batch that is tried again, and dead letters, and 1,000 of them have a batch in flight. One
 * more subscriber has an open batch. At the end the job `sample` has run once, so that listings can be sorted by the
 * figures of topics and subscribers.
 */
export async function startFullBus(stage: Stage, size: Size): Promise<FullBus> {
  const bus = await Bus.start(stage);
  const clients: Credentials[] = [];
  for (let i = 0; i < size.subscribers; i++) {
    const client = await bus.client();
    await bus.subscribe(client, { topics: [topicOf(i)], callback: NOWHERE, timeout: FAR_MS, max: 1 });
    clients.push(client);
  }
  await bus.audience(1, { topics: [topicOf(0)], callback: NOWHERE, timeout: FAR_MS, max: 10_000 });
  const log = createLog('silent', {});
  const store = new Partition(connect(bus.redis.url, log));
  await once(store.redis, 'ready');
  const tokens = clients.map(({ token }) => token);
  const middleMs = await fillStore(store, tokens, size);
  await sampleJob({
    config: readConfig({ ROUTEMASTER_ROOT_KEY: ROOT_KEY }),
    partitions: new Partitions(store),
    log,
  })();
  store.redis.disconnect();
  return { bus, clients, middleMs };
}

const topicOf = (subscriber: number) => `${TOPIC}_${subscriber}`;

/**
 * Calls the scripts that web and worker processes call. Returns a time before which half of the records were made.
 */
async function fillStore(store: Partition, tokens: string[], size: Size): Promise<number> {
  const queue = new Queue(store, 'main', QUEUE);
  await store.redis.sadd(
    store.keys.workers_main(),
    ...Array.from({ length: 4 * SLICE }, (_, i) => `idle${i}`),
  );
  for (const token of tokens) await store.redis.hset(store.keys.subscriber(token), 'sent', 1);
  const others = tokens.length - 1;
  const rounds = Math.ceil(size.records / others / TAKEN);
  let middleMs = 0;
  for (let round = 0; round < rounds; round++) {
    if (round === Math.floor(rounds / 2)) middleMs = Number((await store.redis.time())[0]) * 1000;
    for (let at = 1; at <= others; at++) {
      await publish(store, at, TAKEN);
      await takeAll(queue);
    }
  }
  for (let at = 1; at <= others; at++) await failSome(store, queue, at, size.deadLetters);
  for (let left = size.queued; left > 0; left -= 2 * SLICE) {
    await publish(store, 0, SLICE);
    await publish(store, 1 + (left % others), SLICE);
  }
  await store.redis.hset(store.keys.subscriber(tokens[0] ?? ''), 'paused_at', 1);
  return middleMs;
}

async function publish(store: Partition, subscriber: number, count: number): Promise<void> {
  const limits = {
    idempotencyWindowMs: 1000,
    maxTopics: 10_000,
    maxClientTopics: 10_000,
    maxClientKeys: 1,
    maxOutboxBytes: 1,
  };
  const events = Array.from({ length: count }, () => EVENT);
  const publications = [{ topic: topicOf(subscriber), client: 'shop', events }];
  await store.run('publish', { uidSeed: uidSeed(), ...limits, publications });
}

async function takeAll(queue: Queue): Promise<void> {
  const { grants } = await queue.acquire(Array.from({ length: SLICE }, (_, i) => `w${i}`));
  const record = `${Date.now()},1,1,{"widgets":1},141,${Date.now()},204,5`;
  await queue.acquire(
    [],
    grants.map((grant) => ({ grant, heal: 1, tookMs: 5, record })),
  );
}

/**
 * Fails the batches of a subscriber: one will be tried again, and the others become dead letters. The first subscribers
 * have one more batch, which stays in flight.
 */
async function failSome(
  store: Partition,
  queue: Queue,
  subscriber: number,
  deadLetters: number,
): Promise<void> {
  const failing = Array.from({ length: deadLetters + 1 }, (_, i) => `failing${i}`);
  const workers = subscriber <= MAX_IN_FLIGHT ? [...failing, `flying${subscriber}`] : failing;
  await publish(store, subscriber, workers.length);
  const { grants } = await queue.acquire(workers);
  if (grants.length < workers.length) throw new Error('a batch was not acquired');
  const [retried, ...dead] = grants.filter(({ worker }) => failing.includes(worker));
  if (!retried) throw new Error('no batch fails');
  const attempt = { atMs: Date.now(), durationMs: 5, status: 503, reason: 'HTTP 503', answer: 'down' };
  const failure = { damage: 0, throttleMs: 0, attempt };
  await queue.nack(retried, { ...failure, delayMs: FAR_MS });
  for (const grant of dead) await queue.bury(grant, { ...failure, reason: 'max_age' });
}

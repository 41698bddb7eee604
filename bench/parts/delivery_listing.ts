import { once } from 'node:events';
import { BusClient, type Credentials } from '../../harness/http/bus_client.ts';
import { percentile } from '../../harness/measuring/statistics.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { uidSeed } from '../../src/ids.ts';
import { createLog } from '../../src/log.ts';
import { connect } from '../../src/store/connection.ts';
import { Partition } from '../../src/store/partition.ts';
import { Bus, FAR_MS, NOWHERE } from '../bus.ts';
import type { Options } from '../options.ts';
import { measureInTurn, type Part, type Plan } from '../part.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { counted, TOPIC } from '../workload.ts';

const FULL = { queued: 1_000_000, records: 100_000, subscribers: 1000, calls: 20 };
const QUICK: typeof FULL = { queued: 2_000, records: 500, subscribers: 5, calls: 3 };
const MAX_MS = 20;

/** Batches that a script call opens. */
const SLICE = 250;
/** Batches that a subscriber takes at a time. */
const TAKEN = 25;
const EVENT =
  '{"id":"V1StGXR8_Z5jdHi6","topic":"widgets","type":"update","url":"https://billing.example.com/invoices/1842201","t":1767225600000}';
/** A lane as wide as a slice, and a lease that does not end. */
const QUEUE = { laneLimit: SLICE, laneLimitMax: SLICE, leaseMs: FAR_MS, deliveryLog: 10_000_000 };

/** How long a listing takes beside a million queued batches. */
export const deliveryListing: Part = {
  name: 'delivery-listing',
  title: 'listings of deliveries beside a million queued batches',
  run: async (stage, options) =>
    measureInTurn('delivery-listing', [await listingPlan(stage, options)], options),
};

/**
 * The listings of root and of a client. Half of what is queued is of one subscriber, which is paused. Each of the
 * others has records, a batch in flight, one that is retried, and a dead letter. One more has an open batch.
 */
async function listingPlan(stage: Stage, { quick }: Pick<Options, 'quick'>): Promise<Plan> {
  const size = quick ? QUICK : FULL;
  const queued = `${size.queued.toLocaleString('en')} queued batches`;
  process.stderr.write(`delivery-listing: prepares a bus with ${queued} … `);
  const bus = await Bus.start(stage);
  const clients: Credentials[] = [];
  for (let i = 0; i < size.subscribers; i++) {
    const client = await bus.client();
    await bus.subscribe(client, { topics: [topicOf(i)], callback: NOWHERE, timeout: FAR_MS, max: 1 });
    clients.push(client);
  }
  await bus.audience(1, { topics: [topicOf(0)], callback: NOWHERE, timeout: FAR_MS, max: 10_000 });
  const store = new Partition(connect(bus.redis.url, createLog('silent', {})));
  await once(store.redis, 'ready');
  const tokens = clients.map(({ token }) => token);
  const middleMs = await fillStore(store, tokens, size);
  store.redis.disconnect();
  process.stderr.write('done\n');
  const client = clients[1] as Credentials;
  const [root, own] = [bus.root, new BusClient(`http://127.0.0.1:${bus.port}`, client)];
  const queries: [row: string, client: BusClient, path: string][] = [
    ['all', root, '/deliveries'],
    ...['open', 'ready', 'in_flight', 'retrying', 'paused', 'taken', 'dead', 'dropped'].map(
      (state) => [state, root, `/deliveries?state=${state}`] as [string, BusClient, string],
    ),
    ['of a subscriber', root, `/deliveries?subscriber=${client.token}`],
    ['taken, until the middle', root, `/deliveries?state=taken&until=${middleMs}`],
    ['of a client', own, '/deliveries'],
    ['taken, of a client', own, '/deliveries?state=taken'],
    ['one that there is not', root, `/deliveries/${'-'.repeat(20)}`],
  ];
  return {
    title: 'delivery-listing: pages of 100',
    notes: [
      `${queued}, ${counted(size.records, 'record')}, ${counted(size.subscribers, 'subscriber')}`,
      `read one after the other, ${size.calls} times`,
    ],
    cases: queries.map(([row, client, path]) => ({ row, measure: () => measure(client, path, size.calls) })),
    targets: queries.map(([row]) => ({
      text: `${row}: ≤ ${MAX_MS} ms`,
      bars: [{ row, metric: 'p50Ms' as const, max: MAX_MS }],
    })),
  };
}

const topicOf = (subscriber: number) => `${TOPIC}_${subscriber}`;

async function measure(client: BusClient, path: string, calls: number): Promise<Figures> {
  const tookMs = new Float64Array(calls);
  for (let i = 0; i < calls; i++) {
    const beganMs = performance.now();
    // One that is not there is answered 404.
    await client.call('GET', path).catch(() => undefined);
    tookMs[i] = performance.now() - beganMs;
  }
  return { p50Ms: percentile(tookMs, 0.5), p99Ms: percentile(tookMs, 0.99) };
}

/** Calls the scripts that web and worker processes call. Returns a time before which half of the records were made. */
async function fillStore(store: Partition, tokens: string[], size: typeof FULL): Promise<number> {
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
  for (let at = 1; at <= others; at++) await failSome(store, queue, at);
  for (let left = size.queued; left > 0; left -= 2 * SLICE) {
    await publish(store, 0, SLICE);
    await publish(store, 1 + (left % others), SLICE);
  }
  await store.redis.hset(store.keys.subscriber(tokens[0] ?? ''), 'paused_at', 1);
  return middleMs;
}

async function publish(store: Partition, subscriber: number, count: number): Promise<void> {
  const limits = { idempotencyWindowMs: 1000, maxTopics: 10_000, maxClientTopics: 10_000, maxClientKeys: 1 };
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

/** Of three batches of a subscriber, one stays in flight, one is to be retried, and one becomes a dead letter. */
async function failSome(store: Partition, queue: Queue, subscriber: number): Promise<void> {
  await publish(store, subscriber, 3);
  const { grants } = await queue.acquire([0, 1, 2].map((i) => `flying${subscriber}_${i}`));
  const [, retried, dead] = grants;
  if (!retried || !dead) throw new Error('a batch was not acquired');
  const attempt = { atMs: Date.now(), durationMs: 5, status: 503, reason: 'HTTP 503', answer: 'down' };
  const failure = { damage: 0, throttleMs: 0, attempt };
  await queue.nack(retried, { ...failure, delayMs: FAR_MS });
  await queue.bury(dead, { ...failure, reason: 'max_age' });
}

import assert from 'node:assert/strict';
import { packJob, SHARES } from '../../src/store/job.ts';
import { type KeyName, LAYOUT } from '../../src/store/keys.ts';
import type { Partition } from '../../src/store/partition.ts';
import { assertDeadLetters } from './dead_letters.ts';
import { assertDelayed } from './delayed.ts';
import { assertGaps } from './gaps.ts';
import { imageOf, type Readable } from './image.ts';
import { assertJoins } from './joins.ts';
import { jobName, shortName } from './names.ts';
import { assertOutboxes } from './outboxes.ts';
import { assertRecords } from './records.ts';
import { type QueueState, readState, type State } from './state.ts';
import { assertSubscriptions } from './subscriptions.ts';
import { assertTriggers } from './triggers.ts';

/** Patterns for the variable parts of a key. */
const PARTS: Record<string, string> = {
  token: '.+',
  topic: '[a-z0-9_]{1,64}',
  bid: '[A-Za-z0-9_-]{20}',
  q: '(?:main|aux)',
  share: '(?:slow|failing|joins)',
  worker: '.+',
  process: '.+',
  digest: '[A-Za-z0-9_-]{22}(?:[A-Za-z0-9_-]{21})?',
  owner: '.+',
  nonce: '[A-Za-z0-9_-]{19}',
  minute: '[0-9]+',
  ending: '(?:taken|dropped)',
  watch: '(?:\\*|[a-z0-9_]{1,64})',
  subject: '(?:bus|(?:topic|subscriber):.+)',
  name: '[a-z0-9_]{1,50}',
  partition: '[0-9]+',
};

/** Keys of batches of the Ruby Routemaster, which this bus never writes. */
const FOREIGN: ReadonlySet<string> = new Set<KeyName>(['ruby_batch']);

const SHAPES = Object.entries(LAYOUT)
  .filter(([name]) => !FOREIGN.has(name))
  .map(([, { pattern, type }]) => ({
    shape: new RegExp(`^${pattern.replace(/\{(\w+)\}/g, (_, part: string) => PARTS[part] ?? '\\0')}$`),
    type,
  }));

/**
 * Checks the whole Redis. Every batch has one job and its index entries, and every job is in exactly one
 * state. Gauges equal the contents of the lists. Current batches are open, dead letters and delayed events are whole,
 * subscriptions are stored on both sides, triggers stand at their times, and there is no other key.
 */
export async function assertConsistent(store: Partition): Promise<void> {
  await assertImageConsistent(await imageOf(store));
}

/** Checks an image of Redis as `assertConsistent` checks Redis. */
export async function assertImageConsistent(store: Readable): Promise<void> {
  await assertKeys(store);
  const state = await readState(store);
  await assertBatches(store, state);
  assertGauges(state);
  const { waiting, sharing, suspects } = state.lanes;
  assertQueue(state.main, [...Object.values(waiting), ...Object.values(sharing), suspects].flat());
  assertQueue(state.aux, []);
  await assertLeftovers(store, state);
  await assertLanes(store, state);
  await assertLeases(store, state);
  assert.deepEqual(
    state.main.index,
    Object.keys(state.batches).sort(),
    'each batch has one job, and each job its batch',
  );
  await assertCurrent(store, state);
  await assertDeadLetters(store);
  await assertGaps(store);
  await assertDelayed(store);
  await assertRecords(store, state);
  await assertSubscriptions(store);
  await assertOutboxes(store, state);
  await assertJoins(store);
  await assertTriggers(store);
}

/**
 * Returns every key and its bytes, to show that a call changes nothing. Leaves out the audit, which also
 * records refused calls.
 */
export async function snapshot({ redis, keys }: Partition): Promise<Record<string, string>> {
  const dumps: Record<string, string> = {};
  for (const key of (await redis.keys('*')).sort()) {
    if (key === keys.audit()) continue;
    dumps[key] = (await redis.dumpBuffer(key)).toString('hex');
  }
  return dumps;
}

async function assertKeys({ redis, keys }: Readable): Promise<void> {
  const prefix = keys.schema().slice(0, -LAYOUT.schema.pattern.length);
  for (const key of await redis.keys('*')) {
    assert.ok(key.startsWith(prefix), `${key} is outside of the partition`);
    const type = await redis.type(key);
    assert.ok(isKnown(key.slice(prefix.length), type), `${key}, a ${type}, is not of the layout`);
  }
}

function isKnown(key: string, type: string): boolean {
  return SHAPES.some((each) => each.type === type && each.shape.test(key));
}

async function assertBatches({ redis, keys }: Readable, state: State): Promise<void> {
  const names = Object.keys(state.batches).sort();
  assert.deepEqual([...state.index].sort(), names, 'batches:index has each batch');
  assert.deepEqual(
    Object.values(state.queued).flat().sort(),
    names,
    'each batch is in the index of one subscriber',
  );
  for (const key of await redis.keys(keys.batch('*'))) {
    const bid = key.slice(keys.batch('').length);
    const [token = '', created, attempts, ...events] = await redis.lrange(key, 0, -1);
    assert.match(
      `${created} ${attempts}`,
      /^\d{13} \d+$/,
      `${key} begins with a time and a number of attempts`,
    );
    assert.ok(events.length > 0, `${key} has events`);
    assert.equal(Math.floor(Number(await redis.zscore(keys.batches_index(), bid))), Number(created));
    const behindMs = Number(await redis.zscore(keys.batches_queued(token), bid)) / 1000 - Number(created);
    // An event that another partition accepted may arrive here long afterwards. In the queue of an ordered subscriber,
    // it then stands behind later events. If the subscriber has left, nothing tells any more whether it was ordered.
    const { callback, ordered } = await redis.hgetall(keys.subscriber(token));
    const mayBeLate = callback === undefined || ordered === '1';
    assert.ok(
      Math.abs(behindMs) < 1000 || (mayBeLate && behindMs > 0),
      `${bid} stands at its time, behind others of an ordered subscriber, or before the batch that it was cut off`,
    );
    assert.equal(
      await redis.sismember(keys.jobs_index('main'), packJob('batch', [bid])),
      1,
      `${bid} has its job`,
    );
  }
}

function assertGauges(state: State): void {
  const events: Record<string, number> = {};
  const batches: Record<string, number> = {};
  for (const batch of Object.values(state.batches)) {
    events[batch.token] = (events[batch.token] ?? 0) + batch.events.length;
    batches[batch.token] = (batches[batch.token] ?? 0) + 1;
  }
  assert.deepEqual(state.gauges, { events, batches }, 'gauges are what the lists hold');
}

function assertQueue(queue: QueueState, waiting: string[]): void {
  const held = Object.values(queue.pending);
  assert.ok(
    held.every((jobs) => jobs.length === 1),
    'a worker holds one job at most',
  );
  const somewhere = [...queue.scheduled, ...queue.instant, ...held.flat(), ...waiting].sort();
  assert.deepEqual(somewhere, queue.index, 'each job is in exactly one state');
  for (const worker of Object.keys(queue.pending))
    assert.ok(queue.pendingIndex.includes(worker), `${worker} is indexed`);
}

/**
 * Asserts about each job that is instant, is suspect or waits for room in a share of the workers: it is indexed, or its
 * batch was dropped. Acquire will remove the job of a dropped batch.
 */
async function assertLeftovers({ redis, keys }: Readable, { main, batches }: State): Promise<void> {
  const shares = SHARES.map((share) => keys.share_jobs(share));
  for (const list of [keys.jobs_instant('main'), keys.jobs_suspect(), ...shares]) {
    const jobs = (await redis.lrangeBuffer(list, '0', '-1')).map(jobName);
    for (const job of jobs.filter((each) => !main.index.includes(each)))
      assert.ok(!(job in batches), `${job} is in ${list} and indexed, or its batch was dropped`);
  }
}

/** Asserts that exactly the workers that hold a job have a lease. */
async function assertLeases({ redis, keys }: Readable, { main, aux }: State): Promise<void> {
  const holders = [...Object.keys(main.pending), ...Object.keys(aux.pending)].sort();
  assert.deepEqual((await redis.hkeys(keys.leases())).sort(), holders, 'who holds a job has a lease');
}

async function assertLanes(
  { redis, keys }: Readable,
  { lanes, main, batches, queued }: State,
): Promise<void> {
  const held: Record<string, string> = {};
  const inFlight: Record<string, number> = {};
  for (const [worker, [job = '']] of Object.entries(main.pending)) {
    const token = batches[job]?.token ?? '';
    held[worker] = token;
    inFlight[token] = (inFlight[token] ?? 0) + 1;
  }
  for (const worker of Object.values(lanes.shares).flat())
    assert.ok(worker in held, `${worker} is in a share with a delivery`);
  assert.deepEqual(lanes.held, held, 'who holds a delivery is in its lane');
  assert.deepEqual(lanes.inFlight, inFlight, 'lanes count what is in flight');
  for (const token of Object.keys(lanes.waiting)) {
    const [paused, packed, ordered] = await redis.hmget(
      keys.subscriber(token),
      'paused_at',
      'probe',
      'ordered',
    );
    if (paused) continue;
    const of = (jobs: string[]) => jobs.filter((job) => batches[job]?.token === token);
    // A packed job ends with the id of its batch.
    const probe = packed ? shortName(packed.slice(-20)) : undefined;
    assert.ok(probe === undefined || of(main.index).includes(probe), `the probe of ${token} is a job`);
    const outside = of([
      ...main.instant,
      ...Object.values(main.pending).flat(),
      ...Object.values(lanes.sharing).flat(),
      ...lanes.suspects,
    ]);
    // A scheduled delivery brings waiting jobs back only if it is the probe or has the oldest batch of an ordered lane.
    const oldest = ordered === '1' ? queued[token]?.[0] : undefined;
    outside.push(...main.scheduled.filter((job) => job === probe || job === oldest));
    assert.notDeepEqual(outside, [], `something brings back what waits for ${token}`);
    assert.ok(!probe || !lanes.waiting[token]?.includes(probe), `the probe of ${token} does not wait`);
  }
}

async function assertCurrent({ redis, keys }: Readable, state: State): Promise<void> {
  const open: Record<string, string[]> = {};
  for (const [token, entry] of Object.entries(await redis.hgetall(keys.batches_open()))) {
    open[token] = [shortName(entry.slice(0, 20))];
    const max = (await redis.hget(keys.subscriber(token), 'max_events')) ?? '100';
    assert.equal(entry.slice(20) || '100', max, `the open batch of ${token} holds as many as it asked for`);
  }
  const openIds = Object.values(await redis.hgetall(keys.batches_open())).map((entry) => entry.slice(0, 20));
  for (const bid of await redis.hkeys(keys.batches_closed())) {
    if (bid === '') continue;
    const found = (await redis.exists(keys.batch(bid))) + (await redis.exists(keys.dead_letter(bid)));
    assert.ok(found === 1 && !openIds.includes(bid), `${bid}, which was closed, exists and is not open`);
  }
  const wasRuby = (await redis.exists(keys.taken_over())) === 1;
  assert.deepEqual(state.current, wasRuby ? {} : open, 'current batches are those that are open');
  const pending = Object.values(state.main.pending).flat();
  for (const [token, names] of Object.entries(open)) {
    for (const name of names) {
      assert.equal(state.batches[name]?.token, token, `the current batch ${name} exists`);
      assert.equal(state.batches[name]?.attempts, 0, `the current batch ${name} was never attempted`);
      assert.ok(!pending.includes(name), `the current batch ${name} is not being delivered`);
    }
  }
}

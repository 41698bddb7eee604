import assert from 'node:assert/strict';
import { readDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { readDelayed } from '../../harness/scripts/delayed.ts';
import type { Readable } from '../../harness/scripts/image.ts';
import { shortName } from '../../harness/scripts/names.ts';
import type { State } from '../../harness/scripts/state.ts';
import { type Bulk, readBulk } from '../../src/delivering/dead_letters/bulks.ts';
import { SHARES } from '../../src/store/job.ts';
import { pauserOf } from '../../src/store/pause.ts';
import type { Model } from './model.ts';

/** Asserts that Redis holds what the model has. `seen` is an image of Redis, and `state` was read from it. */
export async function assertEqual(model: Model, seen: Readable, state: State): Promise<void> {
  assertBatches(model, state);
  await assertLetters(model, seen);
  await assertWorkers(model, seen, state);
  await assertTopics(model, seen);
  await assertDelayed(model, seen);
  await assertBulks(model, seen);
  for (const token of model.subscribers.keys()) await assertSubscriber(model, seen, token);
  const live = [...Object.values(state.batches), ...Object.values(await readDeadLetters(seen))];
  for (const token of model.accepted.keys()) assertPlaces(model, live, token);
}

function assertBatches({ batches }: Model, state: State): void {
  const expected = batches.map(({ name, token, attempts, events }) => [name, { token, attempts, events }]);
  assert.deepEqual(state.batches, Object.fromEntries(expected));
  const open = batches.filter((each) => each.open).map(({ token, name }) => [token, [name]]);
  assert.deepEqual(state.current, Object.fromEntries(open), 'batches are open or closed');
  const queued: Record<string, (string | undefined)[]> = {};
  for (const { token, name } of batches) queued[token] = [...(queued[token] ?? []), name];
  assert.deepEqual(state.queued, queued, 'batches stand in the order in which they were opened');
}

async function assertLetters(model: Model, seen: Readable): Promise<void> {
  const letters = await readDeadLetters(seen);
  const expected = model.letters.map(({ name, token, attempts, events, history, reason }) => [
    name,
    { token, attempts, events, history: history.length, reason },
  ]);
  assert.deepEqual(letters, Object.fromEntries(expected));
  const { redis, keys } = seen;
  const noted = [...model.batches, ...model.letters].filter(({ history }) => history.length > 0);
  assert.deepEqual(
    (await redis.keys(keys.attempts('*'))).map((key) => shortName(key.slice(-20))).sort(),
    noted.map(({ name }) => name).sort(),
  );
}

async function assertWorkers(model: Model, { redis, keys }: Readable, state: State): Promise<void> {
  const held = (of: 'string' | 'object') =>
    [...model.holds]
      .filter(([, { work }]) => typeof work === of)
      .map(([worker, { work }]) => [worker, [typeof work === 'string' ? work : work.name]]);
  assert.deepEqual(state.main.pending, Object.fromEntries(held('object')), 'who holds which batch');
  assert.deepEqual(state.aux.pending, Object.fromEntries(held('string')), 'who holds which aux job');
  assert.deepEqual(state.aux.index, [...model.aux].sort());
  const leases = [...model.holds].map(([worker, { lease }]) => [worker, String(lease)]);
  assert.deepEqual(await redis.hgetall(keys.leases()), Object.fromEntries(leases), 'by which leases');
  for (const share of SHARES) {
    const sharing = [...model.holds].filter(([, hold]) => hold.share === share).map(([worker]) => worker);
    assert.deepEqual(state.lanes.shares[share], sharing.sort(), `who is ${share}`);
  }
  assert.deepEqual((await redis.hkeys(keys.workers())).sort(), [...model.workers.keys()].sort());
  const delivering = [...model.workers.keys()].filter((worker) => model.mainWorkers.has(worker));
  assert.deepEqual((await redis.smembers(keys.workers_main())).sort(), delivering.sort(), 'who delivers');
}

async function assertTopics(model: Model, { redis, keys }: Readable): Promise<void> {
  assert.deepEqual((await redis.smembers(keys.topics())).sort(), [...model.topics].sort());
  for (const owner of new Set(model.publishers.values())) {
    const owned = [...model.publishers].filter(([, publisher]) => publisher === owner);
    const expected = owned.map(([topic]) => topic).sort();
    assert.deepEqual((await redis.smembers(keys.topics_owned(owner))).sort(), expected, `what ${owner} owns`);
  }
}

async function assertDelayed(model: Model, seen: Readable): Promise<void> {
  const found = Object.entries(await readDelayed(seen));
  const expected = [...new Set(model.delayed.map(({ topic }) => topic))].map((topic) => [
    topic,
    model.delayedOf(topic).map(({ event }) => event),
  ]);
  const ids = found.map(([topic, events]) => [topic, events.map(({ id }) => id)]);
  assert.deepEqual(
    Object.fromEntries(ids),
    Object.fromEntries(expected),
    'delayed events stand by their times',
  );
}

async function assertSubscriber(model: Model, { redis, keys }: Readable, token: string): Promise<void> {
  const expected = model.subscribers.get(token) ?? assert.fail();
  const hash = await redis.hgetall(keys.subscriber(token));
  const found = {
    topics: new Set(await redis.smembers(keys.subscriber_topics(token))),
    max: Number(hash.max_events),
    ordered: hash.ordered === '1',
    inFlight: hash.max_in_flight === undefined ? undefined : Number(hash.max_in_flight),
    proven: Number(hash.sent ?? 0) > 0,
    slow: 'slow' in hash,
    pausedBy: pauserOf(hash.paused_at, hash.paused_by) ?? undefined,
    throttled: 'throttled_until' in hash,
  };
  const { throttledUntilMs, dropped, told, ...rest } = expected;
  assert.deepEqual(found, { ...rest, throttled: throttledUntilMs !== undefined }, token);
  const count = async (key: string) => Number((await redis.hget(key, 'events')) ?? 0);
  assert.equal(await count(keys.dropped(token)), dropped, `what was dropped of ${token} is counted`);
  const untold = (await count(keys.drop_notice(token))) + (await count(keys.drop_notice_carried(token)));
  assert.equal(untold + told, dropped, `${token} is told of each drop, once`);
}

/** Asserts that each accepted event is in one place: in one batch or dead letter, or it has ended in one way. */
function assertPlaces(
  { accepted, endings }: Model,
  live: { token: string; events: string[] }[],
  token: string,
): void {
  const places = live.filter((each) => each.token === token).flatMap(({ events }) => events);
  places.push(...(endings.get(token)?.keys() ?? []));
  const events = accepted.get(token) ?? [];
  const found = new Set(places);
  assert.equal(found.size, places.length, `no event of ${token} is in two places`);
  assert.equal(found.size, events.length, `${token} has no event that was not accepted`);
  for (const event of events) assert.ok(found.has(event), `${event} of ${token} is in a place`);
}

/** Asserts that each bulk has come as far as that of the model. */
async function assertBulks({ bulks }: Model, { redis, keys }: Readable): Promise<void> {
  assert.deepEqual((await redis.keys(keys.bulk('*'))).length, bulks.size, 'each owner has one bulk');
  for (const [owner, { id, act, state, matched, done, left }] of bulks) {
    const found: Partial<Bulk> = readBulk(await redis.hgetall(keys.bulk(owner))) ?? {};
    const now = [found.id, found.act, found.state, found.matched, found.done, found.left];
    assert.deepEqual(now, [id, act, state, matched, done, left], `the bulk of ${owner}`);
  }
}

import assert from 'node:assert/strict';
import { longName, packNamed } from '../../harness/scripts/names.ts';
import { DELIVERY_LOG } from '../../harness/scripts/worker_calls.ts';
import type { Model } from './model.ts';
import type { Bulk } from './things.ts';
import type { World } from './world.ts';

/** The job of any bulk. Real ones have owner and id as arguments. */
const JOB = 'bulk';

export interface BulkWish {
  act: 'retry' | 'purge';
  /** The subscribers whose letters match; all if undefined. */
  queues: string[] | undefined;
  reason: 'max_attempts' | 'killed_worker' | undefined;
}

/** Begins to count the letters that match. It is refused while the owner's last bulk runs. */
export async function beginBulk(world: World, model: Model, owner: string, wish: BulkWish): Promise<string> {
  const { act, queues, reason } = wish;
  const id = world.seed();
  const { redis, keys } = world.bus.store;
  const isFree = model.bulks.get(owner)?.state !== 'running';
  const begun = await world.bus.store.run('begin_bulk', {
    ...{ owner, id, act, reason, fromMs: undefined, untilMs: undefined, job: packNamed(JOB) },
    ...{ queues: JSON.stringify(queues ?? [null]), listLength: queues?.length ?? 1 },
  });
  assert.equal(begun, isFree, `whether ${owner} has no bulk that runs`);
  if (!isFree) return `beginBulk ${owner}: refused`;
  const untilMs = Number(await redis.hget(keys.bulk(owner), 'until_ms'));
  assert.ok(untilMs <= (await world.bus.nowMs()), 'letters that die later do not match');
  const progress = { state: 'counting', queue: 0, after: undefined, matched: 0, done: 0, left: 0 } as const;
  model.bulks.set(owner, { id, ...wish, untilMs, ...progress });
  model.aux.add(JOB);
  return `beginBulk ${owner} ${id} ${JSON.stringify(wish)}`;
}

/** Confirms a bulk, or tries to confirm one that was replaced. */
export async function confirmBulk(
  world: World,
  model: Model,
  owner: string,
  stale: boolean,
): Promise<string> {
  const bulk = model.bulks.get(owner);
  const id = stale || !bulk ? 'none' : bulk.id;
  const isDone = bulk?.id === id && bulk.state === 'counted';
  assert.equal(await world.bus.store.run('confirm_bulk', { owner, id, job: packNamed(JOB) }), isDone);
  if (!isDone) await world.assertUnchanged();
  else model.aux.add(JOB);
  if (isDone) bulk.state = 'running';
  return `confirmBulk ${owner} ${id}: ${isDone}`;
}

export async function cancelBulk(world: World, model: Model, owner: string, stale: boolean): Promise<string> {
  const bulk = model.bulks.get(owner);
  const id = stale || !bulk ? 'none' : bulk.id;
  const isDone = bulk?.id === id && bulk.state !== 'cancelled' && bulk.state !== 'ended';
  assert.equal(await world.bus.store.run('cancel_bulk', { owner, id }), isDone);
  if (isDone) bulk.state = 'cancelled';
  else await world.assertUnchanged();
  return `cancelBulk ${owner} ${id}: ${isDone}`;
}

/**
 * Makes a step of a bulk, as a worker does that has just read the bulk. With `behind`, the worker read the bulk before
 * another worker made the same step, so this step must change nothing.
 */
export async function stepBulk(
  world: World,
  model: Model,
  owner: string,
  max: number,
  behind: boolean,
): Promise<string> {
  const bulk = model.bulks.get(owner);
  if (!bulk) return 'stepBulk nothing';
  const { id, act, state, queue, queues } = bulk;
  const at = behind && queue > 0 ? queue - 1 : queue;
  const counts = (state === 'counting') !== (behind && at === queue);
  const args = { owner, id, listIndex: at, token: queues?.[at], max };
  const isLost = at !== queue || state !== (counts ? 'counting' : 'running');
  const found = isLost ? { names: [], state: 'lost' } : await walk(world, model, bulk, max);
  const { store } = world.bus;
  if (counts) assert.equal(await store.run('count_bulk', args), found.state);
  else if (act === 'retry') await retry(world, model, bulk, args, found);
  else await purge(world, model, bulk, args, found);
  if (isLost) await world.assertUnchanged();
  else if (counts) bulk.matched += found.names.length;
  if (found.state === 'over') bulk.state = counts ? 'counted' : 'ended';
  return `stepBulk ${owner} ${id} ${JSON.stringify(args)}: ${found.state} ${found.names}`;
}

/** Makes a bulk go on to its end, and confirms it when it has counted. */
export async function finishBulk(world: World, model: Model, owner: string, max: number): Promise<string> {
  const did: string[] = [];
  for (;;) {
    const state = model.bulks.get(owner)?.state;
    if (state === 'counted') did.push(await confirmBulk(world, model, owner, false));
    else if (state !== 'counting' && state !== 'running') return did.join(', ');
    else did.push(await stepBulk(world, model, owner, max, false));
    await world.verify(model);
  }
}

interface Walked {
  names: string[];
  state: string;
}

type StepArguments = { owner: string; id: string; listIndex: number; token: string | undefined; max: number };

/** Goes on to the next letters of a bulk. Returns those that match. */
async function walk(world: World, model: Model, bulk: Bulk, max: number): Promise<Walked> {
  const token = bulk.queues?.[bulk.queue];
  const before = bulk.after ?? ([Number.NEGATIVE_INFINITY, ''] as const);
  const isNext = ({ name, diedMs }: { name: string; diedMs: number }) =>
    diedMs <= bulk.untilMs && (diedMs > before[0] || (diedMs === before[0] && longName(name) > before[1]));
  const all = (await world.deaths()).filter(
    (each) => isNext(each) && (token === undefined || model.find(each.name).token === token),
  );
  const looked = all.slice(0, max);
  const names = looked.map(({ name }) => name);
  const last = looked.at(-1);
  const isGoing = all.length > max && last !== undefined;
  bulk.after = isGoing ? [last.diedMs, longName(last.name)] : undefined;
  const isOver = !isGoing && bulk.queue + 1 >= (bulk.queues?.length ?? 1);
  if (!isGoing) bulk.queue = isOver ? 0 : bulk.queue + 1;
  return {
    names: names.filter((name) => bulk.reason === undefined || model.find(name).reason === bulk.reason),
    state: isGoing ? 'going' : isOver ? 'over' : 'next',
  };
}

async function retry(
  world: World,
  model: Model,
  bulk: Bulk,
  args: StepArguments,
  { names, state }: Walked,
): Promise<void> {
  const letters = names.map((name) => model.find(name));
  const theirs = letters.filter(({ token }) => model.subscribers.has(token));
  const reply = await world.bus.store.run('retry_bulk', args);
  const revived = theirs.map(({ token, events }) => ({ token, events: events.length }));
  assert.deepEqual(reply, { state, revived });
  bulk.done += theirs.length;
  bulk.left += letters.length - theirs.length;
  for (const letter of theirs) {
    model.revive(letter);
    // Batches that one call revives have the same time.
    if (!model.subscribers.get(letter.token)?.ordered) model.unplaced.add(letter.token);
  }
}

async function purge(
  world: World,
  model: Model,
  bulk: Bulk,
  args: StepArguments,
  { names, state }: Walked,
): Promise<void> {
  assert.equal(await world.bus.store.run('purge_bulk', { ...args, deliveryLog: DELIVERY_LOG }), state);
  bulk.done += names.length;
  for (const name of names) model.end(model.find(name), 'purged');
}

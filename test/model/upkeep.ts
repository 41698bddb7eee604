import assert from 'node:assert/strict';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { LEASE_MS, type Model } from './model.ts';
import { pick } from './step.ts';
import type { Batch } from './things.ts';
import type { World } from './world.ts';

/** Time by which a step `pass` moves the clock. A lease lasts for two passes, and runs out before the third. */
const PASS_MS = 100_000;

export async function pass(world: World, model: Model, times: number): Promise<string> {
  await world.pass(model, times * PASS_MS);
  return `pass ${times}`;
}

export async function schedule(world: World, _: Model, most: number): Promise<string> {
  const { promoted } = await world.bus.schedule(most);
  assert.ok(promoted <= most);
  return `schedule ${promoted}`;
}

export async function scrub(world: World, model: Model, all: boolean): Promise<string> {
  const leaseMs = all ? -1 : LEASE_MS;
  assert.deepEqual(await world.bus.scrub(leaseMs), model.scrub(leaseMs));
  return `scrub ${leaseMs}`;
}

export async function retire(world: World, model: Model, workers: string[]): Promise<string> {
  const idle = workers.filter((worker) => model.workers.has(worker) && !model.holds.has(worker));
  assert.equal(await world.bus.store.run('retire', { q: 'main', workers }), idle.length);
  for (const worker of idle) model.workers.delete(worker);
  return `retire ${workers}`;
}

/** Runs a job now. It must have been scheduled; otherwise nothing changes. */
export async function runJob(world: World, _: Model, n: number): Promise<string> {
  const { scheduled, index } = world.state.main;
  const name = pick([...scheduled, ...index], n) ?? 'none1';
  const outcome = await world.bus.runJob(name);
  if (scheduled.includes(name)) {
    assert.equal(outcome, 'ok');
  } else {
    assert.equal(outcome, index.includes(name) ? 'job_not_scheduled' : 'job_not_found');
    await world.assertUnchanged();
  }
  return `run ${name}: ${outcome}`;
}

/** Tries a batch now, if its job waits. Then its subscriber is not throttled any more. */
export async function retryBatch(world: World, model: Model, n: number): Promise<string> {
  const batch = pick(model.batches, n);
  if (!batch) return 'retry nothing';
  const { name = '', token } = batch;
  const { main, lanes, queued } = world.state;
  const tried = model.subscribers.get(token)?.ordered ? (queued[token]?.[0] ?? name) : name;
  const waits = main.scheduled.includes(tried) || (lanes.waiting[token]?.includes(tried) ?? false);
  const outcome = await world.bus.retryBatch(name);
  if (model.subscribers.get(token)?.pausedBy) assert.equal(outcome, 'delivery_paused');
  else assert.equal(outcome, waits ? 'ok' : 'delivery_not_waiting');
  if (outcome === 'ok') model.tryNow(token);
  else await world.assertUnchanged();
  return `retry ${name}: ${outcome}`;
}

/** Makes a dead letter of a batch, if its job waits and its subscriber has not left. */
export async function buryBatch(world: World, model: Model, n: number): Promise<string> {
  const batch = pick(model.batches, n);
  if (!batch) return 'bury no batch';
  const { name = '', token, events } = batch;
  const { main, lanes } = world.state;
  const waits = main.scheduled.includes(name) || (lanes.waiting[token]?.includes(name) ?? false);
  const reply = await world.bus.buryBatch(name);
  if (!model.subscribers.has(token)) assert.equal(reply.outcome, 'delivery_not_found');
  else if (waits) assert.deepEqual(reply, { outcome: 'ok', token, events: events.length });
  else assert.equal(reply.outcome, 'delivery_not_waiting');
  if (reply.outcome === 'ok') model.buryNow(batch);
  else await world.assertUnchanged();
  return `bury batch ${name}: ${reply.outcome}`;
}

/** Sends a test event to one subscriber, in a batch of its own. */
export async function sendTest(world: World, model: Model, token: string): Promise<string> {
  const [event = ''] = world.events(1);
  const sent = await world.bus.sendTest(token, event, world.seed());
  assert.equal(sent !== undefined, model.sendTest(token, event));
  return `test ${token} by ${event}: ${sent}`;
}

/**
 * Drops the oldest dead letters, and then the oldest batches except those in flight: of one subscriber, or of all if
 * `token` is undefined.
 */
export async function autodrop(
  world: World,
  model: Model,
  n: number,
  token: string | undefined,
): Promise<string> {
  const isMeant = (each: Batch) => token === undefined || each.token === token;
  const dead = (await world.letters()).map((name) => model.find(name));
  const queued = token === undefined ? world.state.index.map((name) => model.find(name)) : [...model.batches];
  const free = queued.filter((each) => model.holderOf(each) === undefined);
  const gone = [...dead, ...free].filter(isMeant).slice(0, n);
  const dropped: Record<string, number> = {};
  for (const { token, events } of gone) dropped[token] = (dropped[token] ?? 0) + events.length;
  const cut = { maxDeleted: n, ...(token !== undefined && { token }) };
  const step = await world.bus.autodropStep(n, undefined, [cut]);
  assert.deepEqual([step.batches, step.dropped], [gone.length, dropped]);
  for (const each of gone) model.end(each, 'dropped');
  return `autodrop ${token ?? ''} ${namesOf(gone)}`;
}

/** Drops the oldest batches of one subscriber, except those in flight, and its open one unless it has left. */
export async function dropQueue(world: World, model: Model, token: string, n: number): Promise<string> {
  const mine = model.batches.filter(
    (each) =>
      each.token === token &&
      model.holderOf(each) === undefined &&
      !(each.open && model.subscribers.has(token)),
  );
  const gone = mine.slice(0, n);
  const events = gone.reduce((sum, each) => sum + each.events.length, 0);
  assert.deepEqual(await world.bus.dropQueue(token, n), { batches: gone.length, events });
  for (const each of gone) model.end(each, 'left');
  return `dropQueue ${token} ${namesOf(gone)}`;
}

/** Revives a dead letter for this client; for root if `client` is empty. */
export async function revive(world: World, model: Model, n: number, client: string): Promise<string> {
  const letter = pick(model.letters, n);
  if (!letter) return 'revive nothing';
  const { name = '', token, events } = letter;
  const mine = client === '' || client === token;
  const outcome = !mine
    ? 'dead_letter_not_found'
    : model.subscribers.has(token)
      ? [token, events.length]
      : 'subscriber_not_found';
  assert.deepEqual(await world.bus.revive(client, name), [outcome]);
  if (Array.isArray(outcome)) model.revive(letter);
  return `revive ${name} for ${client}: ${outcome}`;
}

export async function purge(world: World, model: Model, n: number, client: string): Promise<string> {
  const letter = pick(model.letters, n);
  if (!letter) return 'purge nothing';
  const { name = '', token } = letter;
  const mine = client === '' || client === token;
  assert.equal(await world.bus.purge(client, name), Number(mine));
  if (mine) model.end(letter, 'purged');
  return `purge ${name} for ${client}`;
}

export async function replicate(world: World, model: Model): Promise<string> {
  await world.replicate(model);
  return 'replicate';
}

/** Makes another Redis take over, which lacks what was done since it was replicated, but no answered publish. */
export async function failOver(world: World, model: Model): Promise<string> {
  return `failOver ${await world.failOver(model)} ms`;
}

/** Asserts that a sweep finds nothing, and changes nothing. */
export async function sweep(world: World): Promise<string> {
  await assertNothingToSweep(world.bus.store);
  await world.assertUnchanged();
  return 'sweep';
}

const namesOf = (batches: Batch[]) => batches.map(({ name }) => name).join();

import assert from 'node:assert/strict';
import type { Handed } from '../../harness/scripts/worker_calls.ts';
import type { WorkerKind } from '../../src/delivering/queue.ts';
import { enter } from './lane_rules.ts';
import { LANE_LIMIT, LEASE_MS, type Model, SLOW_MS } from './model.ts';
import { pick } from './step.ts';
import type { Failure } from './things.ts';
import type { World } from './world.ts';

/**
 * One and a half passes of time, so that no throttling ends just at a pass: Redis's clock goes on a little meanwhile.
 */
const THROTTLE_MS = 150_000;

const SLOWLY_MS = SLOW_MS + 1;

/** Makes workers acquire jobs. The same call acknowledges the deliveries of the first `done` workers. */
export async function acquire(
  world: World,
  model: Model,
  workers: string[],
  done = 0,
  kind: WorkerKind = 'regular',
): Promise<string> {
  const finished = delivering(model)
    .slice(0, done)
    .map((worker) => ({ worker, job: model.nameOf(worker) ?? '', tookMs: SLOWLY_MS }));
  const removed = finished.flatMap(({ job }) => [1, model.find(job).events.length]);
  const settings = {
    laneLimit: LANE_LIMIT,
    leaseMs: LEASE_MS,
    slowMs: SLOW_MS,
    idle: 0,
    kind,
    finished,
    seed: world.seed(),
  };
  await world.lookForSlow();
  const { readyJobs, grants, acks } = await world.bus.acquire(workers, settings);
  assert.deepEqual(acks, removed);
  for (const { worker, job } of finished) accept(world, model, worker, job, true);
  const ongoing = ongoingLeases(model);
  model.hear(workers);
  model.noticeSlow();
  for (const worker of workers) model.mainWorkers.add(worker);
  for (const grant of grants) take(world, model, grant, { kind, ongoing: ongoing.get(grant.worker) });
  const idle = workers.filter((worker) => !model.holds.has(worker));
  assert.equal(workers.length - idle.length, grants.length, 'who holds a job gets it again');
  if (idle.length > 0) assert.equal(readyJobs, 0, `no job is ready while ${idle} have none`);
  const acked = finished.map(({ worker, job }) => `${worker} ${job}`);
  return `ack ${acked}, acquire ${grants.map(({ worker, job }) => `${worker} ${job}`)} of ${workers}`;
}

/** Returns the leases that have not run out, by worker. A worker that asks again keeps its lease. */
export function ongoingLeases(model: Model): Map<string, number> {
  const ongoing = [...model.holds].filter(([worker]) => !model.isDead(worker, LEASE_MS));
  return new Map(ongoing.map(([worker, { lease }]) => [worker, lease]));
}

function take(
  world: World,
  model: Model,
  { worker, job, batch: list = [], gap }: Handed,
  { kind, ongoing }: { kind: WorkerKind; ongoing: number | undefined },
): void {
  const held = model.holds.get(worker);
  const lease = world.leaseOf(worker, job, ongoing);
  const [token, , attempts, ...events] = list;
  const batch = held || !token ? model.find(job) : model.cutTo(job, token, events);
  const telling = gap?.events ?? 0;
  if (held) {
    assert.equal(held.work, batch, `${worker} holds it`);
    const sinceMs = lease === held.lease ? held.sinceMs : model.nowMs;
    Object.assign(held, { lease, telling, sinceMs });
  } else {
    model.take(worker, { lease, sinceMs: model.nowMs, work: batch, telling, ...enter(model, batch, kind) });
  }
  // A batch whose subscriber has left is handed out without its contents.
  if (!model.subscribers.has(batch.token)) return;
  assert.deepEqual([token, Number(attempts), events], [batch.token, batch.attempts, batch.events]);
  world.receivers.give(batch.token, job, events);
}

function accept(world: World, model: Model, worker: string, name: string, slow: boolean): void {
  const { token, events } = model.find(name);
  world.receivers.accept(token, events);
  model.ack(worker, slow);
}

/** Returns the workers that hold a batch under a lease that has not run out. */
function delivering(model: Model): string[] {
  return [...model.holds.keys()].filter((worker) => model.nameOf(worker) && !model.isDead(worker, LEASE_MS));
}

export async function ack(world: World, model: Model, n: number, slow: boolean): Promise<string> {
  const worker = pick(delivering(model), n);
  if (!worker) return 'ack nothing';
  const name = model.nameOf(worker) ?? '';
  const { events } = model.find(name);
  const tookMs = slow ? SLOWLY_MS : SLOW_MS;
  const settings = { laneLimit: LANE_LIMIT, leaseMs: LEASE_MS, slowMs: SLOW_MS };
  const answer = await world.bus.ack(worker, name, { tookMs, ...settings });
  assert.deepEqual(answer, { held: true, removed: events.length });
  accept(world, model, worker, name, slow);
  return `ack ${worker} ${name}${slow ? ' slowly' : ''}`;
}

/** The ways in which a delivery can fail. */
export interface Fault {
  delayed: boolean;
  throttled: boolean;
  noted: boolean;
  pause: boolean;
}

const failureOf = ({ throttled, noted, pause, delayed }: Fault): Failure => ({
  throttleMs: throttled ? THROTTLE_MS : 0,
  noted,
  pause,
  givenBack: !noted && !delayed,
});

export async function nack(world: World, model: Model, n: number, fault: Fault): Promise<string> {
  const worker = pick(delivering(model), n);
  if (!worker) return 'nack nothing';
  const name = model.nameOf(worker) ?? '';
  const failure = failureOf(fault);
  const delayMs = fault.delayed ? THROTTLE_MS : 0;
  const attempt = fault.noted ? '{}' : '';
  const { throttleMs } = failure;
  const pause = Number(fault.pause) as 0 | 1;
  const options = { delayMs, damage: 2, throttleMs, attempt, pause, leaseMs: LEASE_MS };
  assert.equal(await world.bus.nack(worker, name, options), true);
  model.nack(worker, failure);
  return `nack ${worker} ${name} ${JSON.stringify(options)}`;
}

export async function bury(world: World, model: Model, n: number, throttled: boolean): Promise<string> {
  const worker = pick(delivering(model), n);
  if (!worker) return 'bury nothing';
  const name = model.nameOf(worker) ?? '';
  const failure = failureOf({ throttled, noted: true, pause: false, delayed: false });
  const answer = await world.bus.bury(worker, name, {
    damage: 2,
    throttleMs: failure.throttleMs,
    leaseMs: LEASE_MS,
  });
  assert.deepEqual(answer, { held: true, isGone: false, ...model.bury(worker, failure) });
  return `bury ${worker} ${name}`;
}

/** Makes the quarantine of this worker die. */
export async function condemn(world: World, model: Model, worker: string): Promise<string> {
  const answer = await world.bus.condemn(worker);
  assert.deepEqual(answer, { job: undefined, token: undefined, ...model.condemn(worker) });
  return `condemn ${worker} ${answer.job}`;
}

/** Makes a call that comes too late, under any earlier lease. It must change nothing. */
export async function settleLate(
  world: World,
  model: Model,
  n: number,
  how: 'ack' | 'nack' | 'bury',
): Promise<string> {
  const late = world.leases.filter(({ worker, lease }) => !model.isHeld(worker, lease));
  const { worker, job, lease } = pick(late, n) ?? { worker: 'w1', job: 'none1', lease: 0 };
  assert.equal(await settle(world, how, worker, job, { lease }), false, `${how} of ${job} by ${worker}`);
  await world.assertUnchanged();
  return `late ${how} ${worker} ${job} ${lease}`;
}

/** Makes a call whose `leaseMs` is so short that the lease has run out. It must change nothing. */
export async function settleExpired(
  world: World,
  model: Model,
  n: number,
  how: 'ack' | 'nack' | 'bury',
): Promise<string> {
  const worker = pick(delivering(model), n) ?? 'w1';
  const job = model.nameOf(worker) ?? 'none1';
  assert.equal(await settle(world, how, worker, job, { leaseMs: -1 }), false);
  await world.assertUnchanged();
  return `expired ${how} ${worker} ${job}`;
}

interface Under {
  lease?: number;
  leaseMs?: number;
}

async function settle(
  { bus }: World,
  how: 'ack' | 'nack' | 'bury',
  worker: string,
  job: string,
  given: Under,
) {
  const under = { leaseMs: LEASE_MS, ...given };
  if (how === 'ack') return (await bus.ack(worker, job, under)).held;
  if (how === 'bury') return (await bus.bury(worker, job, under)).held;
  return bus.nack(worker, job, { ...under, damage: 2, throttleMs: 1, attempt: '{}' });
}

/** Makes workers report that they live, under their latest leases, also if they have lost them. */
export async function heartbeat(world: World, model: Model, any: string[]): Promise<string> {
  const busy = any.filter((worker) => model.holds.has(worker));
  const workers = busy.length > 0 ? busy : any;
  const lost = workers.filter((worker) => !model.isHeld(worker, world.bus.leases.get(worker) ?? 0));
  assert.deepEqual(await world.bus.heartbeat(workers, { leaseMs: LEASE_MS }), lost, 'whose lease is lost');
  model.hear(workers.filter((worker) => !lost.includes(worker)));
  return `heartbeat ${workers}, lost ${lost}`;
}

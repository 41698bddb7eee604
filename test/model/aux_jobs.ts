import assert from 'node:assert/strict';
import { ongoingLeases } from './delivering.ts';
import { LEASE_MS, type Model, SLOW_MS } from './model.ts';
import type { World } from './world.ts';

export async function enqueue(world: World, model: Model, job: string): Promise<string> {
  const holder = model.holderOf(job);
  const dead = holder !== undefined && model.isDead(holder, LEASE_MS);
  assert.equal(await world.bus.enqueue(job, LEASE_MS), !model.aux.has(job) || dead, 'whether it was put');
  if (holder && dead) model.nack(holder, { throttleMs: 0, noted: false, pause: false });
  model.aux.add(job);
  return `enqueue ${job}`;
}

export async function acquireAux(world: World, model: Model, worker: string): Promise<string> {
  await world.lookForSlow();
  const settings = { q: 'aux', leaseMs: LEASE_MS, slowMs: SLOW_MS, idle: 0 } as const;
  const { grants } = await world.bus.acquire([worker], settings);
  const ongoing = ongoingLeases(model);
  model.hear([worker]);
  model.noticeSlow();
  const [grant] = grants;
  const held = model.holds.get(worker);
  if (!grant) {
    assert.equal(held, undefined);
    return `acquireAux ${worker} nothing`;
  }
  const { job } = grant;
  const lease = world.leaseOf(worker, job, ongoing.get(worker));
  if (held) {
    assert.equal(held.work, job);
    held.lease = lease;
  } else {
    assert.ok(model.aux.has(job) && model.holderOf(job) === undefined);
    model.take(worker, {
      lease,
      sinceMs: model.nowMs,
      work: job,
      share: undefined,
      inOrder: false,
      telling: 0,
    });
  }
  return `acquireAux ${worker} ${job}`;
}

export async function settleAux(
  world: World,
  model: Model,
  worker: string,
  delayMs: number | undefined,
): Promise<string> {
  const held = model.holds.get(worker);
  if (!held || typeof held.work !== 'string' || model.isDead(worker, LEASE_MS)) return 'settleAux nothing';
  const { work } = held;
  if (delayMs === undefined) {
    assert.equal((await world.bus.ack(worker, work, { q: 'aux', leaseMs: LEASE_MS })).held, true);
    model.ack(worker, false);
  } else {
    assert.equal(await world.bus.nack(worker, work, { q: 'aux', delayMs, leaseMs: LEASE_MS }), true);
    model.nack(worker, { throttleMs: 0, noted: false, pause: false });
  }
  return `settleAux ${worker} ${work}`;
}

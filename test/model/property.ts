import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Partition } from '../../src/store/partition.ts';
import { ack, acquire } from './delivering.ts';
import { Model } from './model.ts';
import { resume, subscribe } from './publishing.ts';
import { QUARANTINE, STEPS, WORKERS } from './steps.ts';
import { pass, schedule, scrub } from './upkeep.ts';
import { World } from './world.ts';

/**
 * Returns the property that for any calls in any order, each partition does what its model does, that a call changes no
 * other partition, and that everything queued is delivered in the end. No call here has anything for another partition.
 * `counted` is called after each step.
 */
export function behavesAsTheModel(
  partitions: () => readonly Partition[],
  longest: number,
  counted = () => {},
) {
  const limits = { maxCommands: longest, size: 'max' } as const;
  const sequences = fc.oneof(...STEPS.map((steps) => fc.commands([steps], limits)));
  return fc.asyncProperty(sequences, async (steps) => {
    const all = partitions();
    await all[0]?.redis.flushall();
    const pairs = all.map((each) => ({
      model: new Model(),
      world: new World(new Bus(() => each), counted),
    }));
    for (const { world, model } of pairs) await begin(world, model);
    const [model, real] = [pairs.map((each) => each.model), pairs.map((each) => each.world)];
    await fc.asyncModelRun(() => ({ model, real }), steps);
    for (const { world, model } of pairs) await drain(world, model);
  });
}

/** Makes an ordered subscriber, and a new one. */
async function begin(world: World, model: Model): Promise<void> {
  const alice = { token: 'alice', topics: ['widgets'], max: 2, ordered: true, proven: true };
  const bob = { token: 'bob', topics: ['widgets', 'gadgets'], max: 3, ordered: false, proven: false };
  for (const each of [alice, bob])
    await subscribe(world, model, { ...each, timeout: 0, inFlight: undefined });
  await world.verify(model);
}

/** Lets all subscribers take what they get, and asserts that everything queued is then delivered. */
async function drain(world: World, model: Model): Promise<void> {
  for (const [token, { pausedBy, topics, max, ordered }] of model.subscribers) {
    if (!pausedBy) continue;
    if (pausedBy === 'operator') await resume(world, model, token, 'operator');
    const same = { topics: [...topics], max, ordered, inFlight: undefined, timeout: 0, proven: false };
    await subscribe(world, model, { token, ...same });
  }
  await scrub(world, model, true);
  for (let left = countQueued(model); left > 0; ) {
    // Ten passes of time are longer than any delivery is postponed.
    await pass(world, model, 10);
    await schedule(world, model, 1000);
    await acquire(world, model, WORKERS);
    await acquire(world, model, QUARANTINE, 0, 'quarantine');
    while (model.holds.size > 0) await ack(world, model, 0, false);
    await world.verify(model);
    assert.ok(countQueued(model) < left, `${left} events are stuck`);
    left = countQueued(model);
  }
}

const countQueued = ({ batches }: Model) => batches.reduce((sum, { events }) => sum + events.length, 0);

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fireTriggers } from '../../../harness/scripts/triggers.ts';
import { until } from '../../../harness/until.ts';
import { StorageUnavailable } from '../../../src/errors.ts';
import { revisionOf } from '../../../src/flow/triggers/definition.ts';
import { finishMove } from '../../../src/flow/triggers/moving_trigger.ts';
import { Triggers } from '../../../src/flow/triggers/triggers.ts';
import { sweepCrossing } from '../../../src/maintenance/sweep_crossing.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';
import { msOf } from '../../../src/store/replies.ts';
import { AHEAD, beforeScript, CUT, LIMITS, TRIGGER, TriggerScene, wanted } from './trigger_scene.ts';

const scene = new TriggerScene();

describe('a trigger whose move is lost by a failover of the partition that it has left', () => {
  const sweep = () =>
    sweepCrossing(
      { partition: scene.partitions.control, partitions: scene.partitions, leaseMs: 1 },
      new AbortController().signal,
    );

  for (const [from, to] of [
    [0, 2],
    [2, 0],
  ] as const)
    test(`is in one partition after a sweep, as the API shows it (from ${from} to ${to})`, async () => {
      await scene.put(from, { nextAt: AHEAD });
      const failOver = await replicaOf(scene.partitions.all[from] as Partition);
      await scene.put(to);
      await failOver();
      assert.deepEqual(await scene.dueTimes(), [
        [0, String(AHEAD)],
        [2, String(AHEAD)],
      ]);
      const { text } = await scene.found();
      await sweep();
      assert.deepEqual(await scene.dueTimes(), [[0, String(AHEAD)]]);
      assert.equal((await scene.found()).text, text);
    });

  test('is in one partition after a sweep also while another is away, or has unreadable triggers', async () => {
    const [from, other] = scene.partitions.all as [Partition, Partition];
    for (const disable of [
      () => other.redis.set(other.keys.triggers_due(), 'not a sorted set'),
      () => (other.command = () => Promise.reject(new StorageUnavailable(undefined, 'away'))),
    ]) {
      await scene.put(0, { nextAt: AHEAD });
      const failOver = await replicaOf(from);
      await scene.put(2);
      await failOver();
      await disable();
      await sweep();
      delete (other as Partial<Partition>).command;
      await other.redis.del(other.keys.triggers_due());
      assert.deepEqual(await scene.dueTimes(), [[0, String(AHEAD)]]);
    }
  });

  test('stays in both if it is still to be moved, and is moved after a sweep', async () => {
    const [from] = scene.partitions.all as [Partition];
    await scene.put(0, { nextAt: AHEAD });
    let failOver = async () => {};
    beforeScript(from, 'remove_trigger', async () => {
      failOver = await replicaOf(from);
    });
    await scene.put(2);
    await failOver();
    await sweep();
    assert.equal((await scene.dueTimes()).length, 2);
    await finishMove(TRIGGER, from, scene.partitions, scene.partitions);
    assert.deepEqual(await scene.dueTimes(), [[2, String(AHEAD)]]);
  });
});

describe('a move of a trigger with ROUTEMASTER_MIN_REPLICAS', () => {
  for (const [what, place, places] of [
    [
      'begin while no replica confirms what the old partition has: it could fire there after a failover',
      0,
      [0],
    ],
    ['end while no replica confirms what the new partition has: a failover could lose it', 2, [0, 2]],
  ] as const)
    test(`does not ${what}`, async () => {
      await scene.put(0, { nextAt: AHEAD });
      const confirmed = [...scene.partitions.all];
      confirmed[place] = Partitions.on(scene.redis.store.redis, { partitions: 3, minReplicas: 1 }).all[
        place
      ] as Partition;
      const triggers = new Triggers(scene.partitions, LIMITS, new Partitions(...(confirmed as [Partition])));
      const topic = scene.topics[2] as string;
      await assert.rejects(
        triggers.put(TRIGGER, { isFixed: true, topic }, () => wanted(topic)),
        StorageUnavailable,
      );
      assert.deepEqual(
        (await scene.dueTimes()).map(([index]) => index),
        places,
      );
      await scene.put(2);
      assert.deepEqual(await scene.dueTimes(), [[2, String(AHEAD)]]);
    });
});

test('a trigger that comes back stays as it was changed, although a failover undoes that it had left', async () => {
  const [home] = scene.partitions.all as [Partition];
  await scene.put(0, { nextAt: AHEAD });
  let failOver = async () => {};
  beforeScript(home, 'remove_trigger', async () => {
    failOver = await replicaOf(home);
  });
  await scene.put(2);
  const { text } = await scene.found();
  const fired = { ...TRIGGER, revision: revisionOf(text), dueAt: AHEAD, times: [AHEAD] };
  await fireTriggers(scene.partitions.all[2] as Partition, 'a', [
    { ...fired, missed: 0, nextAt: AHEAD + 1000 },
  ]);
  beforeScript(home, 'receive_trigger', () => failOver());
  assert.equal(await scene.put(0, { isPaused: true }), 'changed');
  const { topic, fired: count, next_at, paused } = await scene.found();
  assert.deepEqual([topic, count, next_at, paused], [scene.topics[0], 1, AHEAD + 1000, true]);
  assert.deepEqual(await scene.dueTimes(), [[0, 'inf']]);
});

test('a trigger stays where it has moved and fired, although a failover brings it back before the call ends', async () => {
  const [from, , home] = scene.partitions.all as [Partition, Partition, Partition];
  await scene.put(0, { nextAt: AHEAD });
  const run = from.run.bind(from);
  from.run = async (name, args) => {
    if (name !== 'remove_trigger') return run(name, args);
    from.run = run;
    const revision = revisionOf((await scene.found()).text);
    const firing = { ...TRIGGER, revision, dueAt: AHEAD, times: [AHEAD], missed: 0, nextAt: AHEAD + 1000 };
    await fireTriggers(home, 'a', [firing]);
    const failOver = await replicaOf(from);
    const reply = await run(name, args);
    await failOver();
    return reply;
  };
  assert.equal(await scene.put(2), 'changed');
  assert.equal((await scene.found()).fired, 1);
  assert.deepEqual(await scene.dueTimes(), [[2, String(AHEAD + 1000)]]);
});

test('a trigger that is deleted while a worker ends its move is gone', async () => {
  const [from] = scene.partitions.all as [Partition];
  await scene.put(0, { nextAt: AHEAD });
  const mend = scene.cutOff(2, () => {});
  await assert.rejects(scene.put(2), CUT);
  mend();
  beforeScript(from, 'remove_trigger', () => finishMove(TRIGGER, from, scene.partitions, scene.partitions));
  assert.equal(await scene.triggers.remove(TRIGGER), true);
  assert.deepEqual(await scene.dueTimes(), []);
  assert.equal(await scene.triggers.remove(TRIGGER), false);
});

test('a trigger that is deleted between the calls of a worker that ends its move is gone', async () => {
  const [from, , home] = scene.partitions.all as [Partition, Partition, Partition];
  await scene.put(0, { nextAt: AHEAD });
  const mend = scene.cutOff(2, () => {});
  await assert.rejects(scene.put(2), CUT);
  mend();
  beforeScript(home, 'receive_trigger', () => scene.triggers.remove(TRIGGER));
  await assert.rejects(finishMove(TRIGGER, from, scene.partitions, scene.partitions), StorageUnavailable);
  assert.deepEqual(await scene.dueTimes(), []);
});

test('a trigger that a worker reads while it is deleted, and brings to its new partition afterwards, is gone', async () => {
  const [from, , home] = scene.partitions.all as [Partition, Partition, Partition];
  await scene.put(0, { nextAt: AHEAD });
  const mend = scene.cutOff(2, () => {});
  await assert.rejects(scene.put(2), CUT);
  mend();
  const { promise: isDeleted, resolve: deleted } = Promise.withResolvers<void>();
  const { promise: isRead, resolve: read } = Promise.withResolvers<void>();
  beforeScript(home, 'receive_trigger', () => {
    read();
    return isDeleted;
  });
  let moving: Promise<unknown> | undefined;
  // By now, the trigger is deleted in the new partition, but not in the old one.
  beforeScript(from, 'remove_trigger', () => {
    moving = assert.rejects(
      finishMove(TRIGGER, from, scene.partitions, scene.partitions),
      StorageUnavailable,
    );
    return isRead;
  });
  assert.equal(await scene.triggers.remove(TRIGGER), true);
  deleted();
  await moving;
  assert.deepEqual(await scene.dueTimes(), []);
});

test('a trigger that moves on between the calls of a worker that ends its first move is in one partition', async () => {
  const [from, , home] = scene.partitions.all as [Partition, Partition, Partition];
  await scene.put(0, { nextAt: AHEAD });
  const mend = scene.cutOff(2, () => {});
  await assert.rejects(scene.put(2), CUT);
  mend();
  beforeScript(home, 'receive_trigger', () => scene.put(1));
  await assert.rejects(finishMove(TRIGGER, from, scene.partitions, scene.partitions), StorageUnavailable);
  assert.deepEqual(await scene.dueTimes(), [[1, String(AHEAD)]]);
});

test('a trigger that is deleted while a worker that ends its move stands still for seconds is gone', async () => {
  const [from, , home] = scene.partitions.all as [Partition, Partition, Partition];
  await scene.put(0, { nextAt: AHEAD });
  const mend = scene.cutOff(2, () => {});
  await assert.rejects(scene.put(2), CUT);
  mend();
  beforeScript(home, 'receive_trigger', async () => {
    const timeMs = async () => msOf(await home.command((redis) => redis.time()));
    const beganMs = await timeMs();
    await finishMove(TRIGGER, from, scene.partitions, scene.partitions);
    assert.equal(await scene.triggers.remove(TRIGGER), true);
    await until(async () => (await timeMs()) > beganMs + 3000);
  });
  await assert.rejects(finishMove(TRIGGER, from, scene.partitions, scene.partitions), StorageUnavailable);
  assert.deepEqual(await scene.dueTimes(), []);
});

/** Copies a partition, as a replica does. Returns a function that makes the partition what it was then: a failover. */
async function replicaOf({ redis, prefix }: Partition): Promise<() => Promise<void>> {
  const present = () => redis.keys(`${prefix}*`);
  const copies = (await present()).map(async (key) => [key, await redis.dumpBuffer(key)] as const);
  const copied = await Promise.all(copies);
  return async () => {
    await redis.del(await present());
    for (const [key, copy] of copied) await redis.restore(key, 0, copy);
  };
}

describe('a trigger that is moved while it is looked for', () => {
  /** Returns triggers whose first look at the partition `from` comes only after the trigger has moved to `to`. */
  const looking = (from: number, to: number) => {
    let moved: Promise<unknown> | undefined;
    const [first, ...others] = scene.partitions.all.map((partition, index) => {
      const command: Partition['command'] = async (...args) => {
        moved ??= scene.put(to);
        await moved;
        return partition.command(...args);
      };
      return index === from ? Object.create(partition, { command: { value: command } }) : partition;
    }) as [Partition, ...Partition[]];
    return new Triggers(new Partitions(first, ...others), LIMITS);
  };

  for (const [from, to] of [
    [0, 2],
    [2, 0],
  ] as const)
    test(`is found, and not made anew (from ${from} to ${to})`, async () => {
      await scene.put(from, { nextAt: AHEAD });
      assert.ok(await looking(from, to).find(TRIGGER));
      await scene.put(from);
      const topic = scene.topics[1] as string;
      const put = { isFixed: true, topic };
      const outcome = await looking(from, to).put(TRIGGER, put, () => wanted(topic));
      assert.equal(outcome, 'changed');
      assert.deepEqual(await scene.dueTimes(), [[1, String(AHEAD)]]);
    });
});

import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { capturedLog } from '../../../harness/captured_log.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { EVERY_SECOND, fireTriggers } from '../../../harness/scripts/triggers.ts';
import { until } from '../../../harness/until.ts';
import { Clients } from '../../../src/authentication/client.ts';
import { StorageUnavailable } from '../../../src/errors.ts';
import { revisionOf } from '../../../src/flow/triggers/definition.ts';
import { DueTriggers } from '../../../src/flow/triggers/due_triggers.ts';
import { bringToTopic } from '../../../src/flow/triggers/moving_trigger.ts';
import { reportOf } from '../../../src/flow/triggers/trigger_report.ts';
import { Triggers, type Wanted } from '../../../src/flow/triggers/triggers.ts';
import { sweepCrossing } from '../../../src/maintenance/sweep_crossing.ts';
import { Recorder } from '../../../src/metrics/recorder.ts';
import type { ScriptName } from '../../../src/store/contracts.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';

const ROOM = 1_000_000;
const LIMITS = {
  ...{ maxTriggers: ROOM, maxClientTriggers: ROOM, maxClientTriggerBytes: ROOM },
  ...{ maxTopics: ROOM, maxClientTopics: ROOM },
};
const RATES = { maxOutboxBytes: ROOM, publishRate: 0, publishBytes: 0, publishBurstMs: 10_000 };
const EVENT = { type: 'noop', url: 'https://shop.example.com/' } as const;
const TRIGGER = { client: 'shop', name: 'daily' };
/** A day ahead: the trigger fires only where a test says so. */
const AHEAD = Date.now() + 86_400_000;

const redis = new TestStore();
let partitions: Partitions;
/** A topic of each partition. */
let topics: string[];

beforeEach(async () => {
  await redis.flush();
  partitions = Partitions.on(redis.store.redis, { partitions: 3 });
  const names = Array.from({ length: 100 }, (_, i) => `topic_${i}`);
  topics = partitions.all.map(
    (each) => names.find((name) => partitions.ofTopic(name) === each) ?? assert.fail(),
  );
});

const wanted = (topic: string, changes: Partial<Wanted> = {}): Wanted => ({
  definition: { topic, event: EVENT, catchUp: 'latest', timing: EVERY_SECOND },
  ...{ isPaused: false, due: 'keep' },
  ...changes,
});

function put(place: number, changes: Partial<Wanted> = {}, isFixed = true) {
  const topic = topics[place] as string;
  const triggers = new Triggers(partitions, LIMITS);
  return triggers.put(TRIGGER, { isFixed, topic }, () => wanted(topic, changes));
}

async function found() {
  const { stored } = await new Triggers(partitions, LIMITS).find(TRIGGER);
  assert.ok(stored);
  return { ...reportOf(stored), text: stored.text };
}

/** Returns when the trigger is due, in each partition that has it. */
async function dueTimes(): Promise<[number, string][]> {
  const scores = partitions.all.map(({ redis, keys }) => redis.zscore(keys.triggers_due(), 'daily shop'));
  return [...(await Promise.all(scores)).entries()].flatMap(([place, score]) =>
    score === null ? [] : [[place, score]],
  );
}

describe('a trigger whose new topic is in another partition', () => {
  beforeEach(async () => {
    assert.equal(await put(0, { due: { nextMs: AHEAD } }), 'created');
    const { text } = await found();
    const fired = { ...TRIGGER, revision: revisionOf(text), dueAt: AHEAD, times: [AHEAD] };
    await fireTriggers(partitions.control, 'a', [{ ...fired, missed: 2, nextAt: AHEAD + 1000 }]);
  });

  test('goes on there with its counts and its due time', async () => {
    assert.equal(await put(2), 'changed');
    const { topic, fired, missed, last_at, next_at, paused } = await found();
    assert.deepEqual(
      [topic, fired, missed, last_at, next_at, paused],
      [topics[2], 1, 2, AHEAD, AHEAD + 1000, false],
    );
    assert.deepEqual(await dueTimes(), [[2, String(AHEAD + 1000)]]);
    assert.equal(await put(2), 'changed');
  });

  test('does not fire twice at its last time, which comes while it moves', async () => {
    const topic = topics[2] as string;
    const dueAt = AHEAD + 1000;
    const last = { ...TRIGGER, revision: revisionOf((await found()).text), dueAt, times: [dueAt], missed: 0 };
    let firing: Promise<unknown> | undefined;
    await new Triggers(partitions, LIMITS).put(TRIGGER, { isFixed: true, topic }, () => {
      firing = fireTriggers(partitions.control, 'b', [{ ...last, nextAt: undefined }]);
      return wanted(topic);
    });
    await firing;
    assert.equal((await found()).fired, 2);
    assert.deepEqual(await dueTimes(), [[2, 'inf']]);
  });

  test('gets the due time of a new schedule, or is paused', async () => {
    assert.equal(await put(1, { due: { nextMs: AHEAD + 5 } }), 'changed');
    assert.deepEqual(await dueTimes(), [[1, String(AHEAD + 5)]]);
    assert.equal(await put(2, { isPaused: true }), 'changed');
    assert.deepEqual(await dueTimes(), [[2, 'inf']]);
    assert.equal((await found()).next_at, AHEAD + 5);
  });

  test('stays where it is if the topic is another client’s', async () => {
    const home = partitions.all[2] as Partition;
    await home.redis.hset(home.keys.topic(topics[2] as string), 'publisher', 'mill');
    assert.equal(await put(2), 'claimed_by_other');
    assert.deepEqual(await dueTimes(), [[0, String(AHEAD + 1000)]]);
  });

  test('is listed once while both partitions have it', async () => {
    const [from] = partitions.all as [Partition];
    const listed = async () =>
      Promise.all(
        [TRIGGER.client, undefined].map((client) => new Triggers(partitions, LIMITS).names(client)),
      );
    let during: Promise<unknown> | undefined;
    beforeScript(from, 'remove_trigger', () => (during = listed()));
    assert.equal(await put(2), 'changed');
    assert.deepEqual(await during, [[TRIGGER], [TRIGGER]]);
  });

  for (const isPaused of [false, true])
    test(`goes on in one partition wherever its move is cut off, ${isPaused ? '' : 'not '}paused`, async () => {
      const seen: (string | undefined)[] = [];
      for (let isCut = true; isCut; seen.push((await found()).topic)) {
        await put(0);
        isCut = false;
        const mend = cutOff(seen.length, () => (isCut = true));
        await put(2, { isPaused }).catch((error: unknown) => assert.equal(error, CUT));
        mend();
        await workUntil(async () =>
          (await dueTimes()).every(([, due]) => due === 'inf' || Number(due) > AHEAD),
        );
        const { topic, fired, missed, next_at, paused } = await found();
        assert.deepEqual([fired, missed, next_at], [1, 2, AHEAD + 1000]);
        const isMoved = topic === topics[2];
        assert.equal(paused, isMoved && isPaused);
        assert.deepEqual(await dueTimes(), [[isMoved ? 2 : 0, paused ? 'inf' : String(AHEAD + 1000)]]);
      }
      assert.deepEqual(new Set(seen), new Set([topics[0], topics[2]]));
    });
});

describe('a trigger whose move is lost by a failover of the partition that it has left', () => {
  const sweep = () =>
    sweepCrossing({ partition: partitions.control, partitions, leaseMs: 1 }, new AbortController().signal);

  for (const [from, to] of [
    [0, 2],
    [2, 0],
  ] as const)
    test(`is in one partition after a sweep, as the API shows it (from ${from} to ${to})`, async () => {
      await put(from, { due: { nextMs: AHEAD } });
      const failOver = await replicaOf(partitions.all[from] as Partition);
      await put(to);
      await failOver();
      assert.deepEqual(await dueTimes(), [
        [0, String(AHEAD)],
        [2, String(AHEAD)],
      ]);
      const { text } = await found();
      await sweep();
      assert.deepEqual(await dueTimes(), [[0, String(AHEAD)]]);
      assert.equal((await found()).text, text);
    });

  test('is in one partition after a sweep also while another is away, or has unreadable triggers', async () => {
    const [from, other] = partitions.all as [Partition, Partition];
    for (const disable of [
      () => other.redis.set(other.keys.triggers_due(), 'not a sorted set'),
      () => (other.command = () => Promise.reject(new StorageUnavailable(undefined, 'away'))),
    ]) {
      await put(0, { due: { nextMs: AHEAD } });
      const failOver = await replicaOf(from);
      await put(2);
      await failOver();
      await disable();
      await sweep();
      delete (other as Partial<Partition>).command;
      await other.redis.del(other.keys.triggers_due());
      assert.deepEqual(await dueTimes(), [[0, String(AHEAD)]]);
    }
  });

  test('stays in both if it is still to be moved, and is moved after a sweep', async () => {
    const [from] = partitions.all as [Partition];
    await put(0, { due: { nextMs: AHEAD } });
    let failOver = async () => {};
    beforeScript(from, 'remove_trigger', async () => {
      failOver = await replicaOf(from);
    });
    await put(2);
    await failOver();
    await sweep();
    assert.equal((await dueTimes()).length, 2);
    await bringToTopic(TRIGGER, from, partitions, partitions);
    assert.deepEqual(await dueTimes(), [[2, String(AHEAD)]]);
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
      await put(0, { due: { nextMs: AHEAD } });
      const confirmed = [...partitions.all];
      confirmed[place] = Partitions.on(redis.store.redis, { partitions: 3, minReplicas: 1 }).all[
        place
      ] as Partition;
      const triggers = new Triggers(partitions, LIMITS, new Partitions(...(confirmed as [Partition])));
      const topic = topics[2] as string;
      await assert.rejects(
        triggers.put(TRIGGER, { isFixed: true, topic }, () => wanted(topic)),
        StorageUnavailable,
      );
      assert.deepEqual(
        (await dueTimes()).map(([index]) => index),
        places,
      );
      await put(2);
      assert.deepEqual(await dueTimes(), [[2, String(AHEAD)]]);
    });
});

test('a trigger that comes back stays as it was changed, although a failover undoes that it had left', async () => {
  const [home] = partitions.all as [Partition];
  await put(0, { due: { nextMs: AHEAD } });
  let failOver = async () => {};
  beforeScript(home, 'remove_trigger', async () => {
    failOver = await replicaOf(home);
  });
  await put(2);
  const { text } = await found();
  const fired = { ...TRIGGER, revision: revisionOf(text), dueAt: AHEAD, times: [AHEAD] };
  await fireTriggers(partitions.all[2] as Partition, 'a', [{ ...fired, missed: 0, nextAt: AHEAD + 1000 }]);
  beforeScript(home, 'receive_trigger', () => failOver());
  assert.equal(await put(0, { isPaused: true }), 'changed');
  const { topic, fired: count, next_at, paused } = await found();
  assert.deepEqual([topic, count, next_at, paused], [topics[0], 1, AHEAD + 1000, true]);
  assert.deepEqual(await dueTimes(), [[0, 'inf']]);
});

test('a trigger stays where it has moved and fired, although a failover brings it back before the call ends', async () => {
  const [from, , home] = partitions.all as [Partition, Partition, Partition];
  await put(0, { due: { nextMs: AHEAD } });
  const run = from.run.bind(from);
  from.run = async (name, args) => {
    if (name !== 'remove_trigger') return run(name, args);
    from.run = run;
    const revision = revisionOf((await found()).text);
    const firing = { ...TRIGGER, revision, dueAt: AHEAD, times: [AHEAD], missed: 0, nextAt: AHEAD + 1000 };
    await fireTriggers(home, 'a', [firing]);
    const failOver = await replicaOf(from);
    const reply = await run(name, args);
    await failOver();
    return reply;
  };
  assert.equal(await put(2), 'changed');
  assert.equal((await found()).fired, 1);
  assert.deepEqual(await dueTimes(), [[2, String(AHEAD + 1000)]]);
});

test('a trigger that is deleted while a worker ends its move is gone', async () => {
  const [from] = partitions.all as [Partition];
  await put(0, { due: { nextMs: AHEAD } });
  const mend = cutOff(2, () => {});
  await assert.rejects(put(2), CUT);
  mend();
  beforeScript(from, 'remove_trigger', () => bringToTopic(TRIGGER, from, partitions, partitions));
  assert.equal(await new Triggers(partitions, LIMITS).remove(TRIGGER), true);
  assert.deepEqual(await dueTimes(), []);
  assert.equal(await new Triggers(partitions, LIMITS).remove(TRIGGER), false);
});

test('a trigger that is deleted between the calls of a worker that ends its move is gone', async () => {
  const [from, , home] = partitions.all as [Partition, Partition, Partition];
  await put(0, { due: { nextMs: AHEAD } });
  const mend = cutOff(2, () => {});
  await assert.rejects(put(2), CUT);
  mend();
  beforeScript(home, 'receive_trigger', () => new Triggers(partitions, LIMITS).remove(TRIGGER));
  await assert.rejects(bringToTopic(TRIGGER, from, partitions, partitions), StorageUnavailable);
  assert.deepEqual(await dueTimes(), []);
});

test('a trigger that a worker reads while it is deleted, and brings to its new partition afterwards, is gone', async () => {
  const [from, , home] = partitions.all as [Partition, Partition, Partition];
  await put(0, { due: { nextMs: AHEAD } });
  const mend = cutOff(2, () => {});
  await assert.rejects(put(2), CUT);
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
    moving = assert.rejects(bringToTopic(TRIGGER, from, partitions, partitions), StorageUnavailable);
    return isRead;
  });
  assert.equal(await new Triggers(partitions, LIMITS).remove(TRIGGER), true);
  deleted();
  await moving;
  assert.deepEqual(await dueTimes(), []);
});

test('a trigger that moves on between the calls of a worker that ends its first move is in one partition', async () => {
  const [from, , home] = partitions.all as [Partition, Partition, Partition];
  await put(0, { due: { nextMs: AHEAD } });
  const mend = cutOff(2, () => {});
  await assert.rejects(put(2), CUT);
  mend();
  beforeScript(home, 'receive_trigger', () => put(1));
  await assert.rejects(bringToTopic(TRIGGER, from, partitions, partitions), StorageUnavailable);
  assert.deepEqual(await dueTimes(), [[1, String(AHEAD)]]);
});

test('a trigger that is deleted while a worker that ends its move stands still for seconds is gone', async () => {
  const [from, , home] = partitions.all as [Partition, Partition, Partition];
  await put(0, { due: { nextMs: AHEAD } });
  const mend = cutOff(2, () => {});
  await assert.rejects(put(2), CUT);
  mend();
  beforeScript(home, 'receive_trigger', async () => {
    const { nowMs } = await new Triggers(partitions, LIMITS).find(TRIGGER);
    await bringToTopic(TRIGGER, from, partitions, partitions);
    assert.equal(await new Triggers(partitions, LIMITS).remove(TRIGGER), true);
    await until(async () => (await new Triggers(partitions, LIMITS).find(TRIGGER)).nowMs > nowMs + 3000);
  });
  await assert.rejects(bringToTopic(TRIGGER, from, partitions, partitions), StorageUnavailable);
  assert.deepEqual(await dueTimes(), []);
});

describe('two puts of one trigger at once, with topics in two partitions,', () => {
  const later = { due: { nextMs: AHEAD } } as const;

  test('leave one trigger if both make it', async () => {
    assert.deepEqual(await Promise.all([put(2, later), put(1, later)]), ['created', 'created']);
    assert.deepEqual(await dueTimes(), [[1, String(AHEAD)]]);
  });

  test('leave one trigger if both change it', async () => {
    await put(0, later);
    assert.deepEqual(await Promise.all([put(2), put(1)]), ['changed', 'changed']);
    const [[place, due] = [], ...others] = await dueTimes();
    assert.deepEqual([due, others], [String(AHEAD), []]);
    assert.equal((await found()).topic, topics[place ?? 0]);
  });

  test('leave the trigger of a third call that moves it while the second of two is removed', async () => {
    const [, home, other] = partitions.all as [Partition, Partition, Partition];
    beforeScript(home, 'put_trigger', () => put(2, later));
    beforeScript(other, 'remove_trigger', () => put(2));
    assert.equal(await put(1, later), 'created');
    assert.deepEqual(await dueTimes(), [[2, String(AHEAD)]]);
  });
});

const CUT = new Error('the process was killed');

/**
 * Makes all script calls of the partitions fail, except the next `calls`, as if the process was killed behind these.
 * Returns a function that ends this.
 */
function cutOff(calls: number, onCut: () => void): () => void {
  let left = calls;
  for (const partition of partitions.all) {
    const run = partition.run.bind(partition);
    partition.run = (name, args) => {
      if (left-- > 0) return run(name, args);
      onCut();
      throw CUT;
    };
  }
  return () => {
    for (const partition of partitions.all) delete (partition as Partial<Partition>).run;
  };
}

/** Publishes due triggers of all partitions, as workers do, until `isDone` returns true. */
async function workUntil(isDone: () => Promise<boolean>): Promise<void> {
  const parts = {
    ...{ partitions, confirmed: partitions },
    guard: { check: () => undefined },
    recorder: new Recorder({ increment() {} }),
    log: capturedLog().log,
  };
  const workers = partitions.all.map(
    (partition) => new DueTriggers({ ...parts, partition, limits: { ...LIMITS, ...RATES }, onFull() {} }),
  );
  await until(async () => {
    for (const worker of workers) await worker.publish();
    return isDone();
  });
}

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

/** Calls `action` once, before the partition next runs this script. */
function beforeScript(partition: Partition, script: ScriptName, action: () => Promise<unknown>): void {
  const run = partition.run.bind(partition);
  partition.run = async (name, args) => {
    if (name === script) {
      partition.run = run;
      await action();
    }
    return run(name, args);
  };
}

test('a client that was made while the partition of the topic was away gets its trigger', async () => {
  await new Clients(partitions.control, []).register('shop', TRIGGER.client, { publish: ['topic_*'] });
  assert.equal(await put(2, {}, false), 'created');
  const { redis, keys } = partitions.all[2] as Partition;
  assert.equal(await redis.hget(keys.api_token(TRIGGER.client), 'publish'), 'topic_*');
  await new Clients(partitions.control, []).remove(TRIGGER.client);
  assert.equal(await put(1, {}, false), 'client_not_found');
});

test('a trigger moves between partitions that take long to answer', async () => {
  await put(0);
  for (const partition of partitions.all) {
    const command = partition.command.bind(partition);
    partition.command = async (send) => {
      const reply = await command(send);
      await sleep(600);
      return reply;
    };
  }
  assert.equal(await put(1), 'changed');
});

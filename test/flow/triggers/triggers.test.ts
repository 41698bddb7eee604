import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { capturedLog } from '../../../harness/captured_log.ts';
import { fireTriggers } from '../../../harness/scripts/triggers.ts';
import { until } from '../../../harness/until.ts';
import { Clients } from '../../../src/authentication/client.ts';
import { revisionOf } from '../../../src/flow/triggers/definition.ts';
import { DueTriggers } from '../../../src/flow/triggers/due_triggers.ts';
import { Recorder } from '../../../src/metrics/recorder.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { AHEAD, beforeScript, CUT, LIMITS, ROOM, TRIGGER, TriggerScene, wanted } from './trigger_scene.ts';

const RATES = { maxOutboxBytes: ROOM, publishRate: 0, publishBytes: 0, publishBurstMs: 10_000 };

const scene = new TriggerScene();

describe('a trigger whose new topic is in another partition', () => {
  beforeEach(async () => {
    assert.equal(await scene.put(0, { nextAt: AHEAD }), 'created');
    const { text } = await scene.found();
    const fired = { ...TRIGGER, revision: revisionOf(text), dueAt: AHEAD, times: [AHEAD] };
    await fireTriggers(scene.partitions.control, 'a', [{ ...fired, missed: 2, nextAt: AHEAD + 1000 }]);
  });

  test('goes on there with its counts and its due time', async () => {
    assert.equal(await scene.put(2), 'changed');
    const { topic, fired, missed, last_at, next_at, paused } = await scene.found();
    assert.deepEqual(
      [topic, fired, missed, last_at, next_at, paused],
      [scene.topics[2], 1, 2, AHEAD, AHEAD + 1000, false],
    );
    assert.deepEqual(await scene.dueTimes(), [[2, String(AHEAD + 1000)]]);
    assert.equal(await scene.put(2), 'changed');
  });

  test('does not fire twice at its last time, which comes while it moves', async () => {
    const topic = scene.topics[2] as string;
    const dueAt = AHEAD + 1000;
    const last = {
      ...TRIGGER,
      revision: revisionOf((await scene.found()).text),
      dueAt,
      times: [dueAt],
      missed: 0,
    };
    let firing: Promise<unknown> | undefined;
    await scene.triggers.put(TRIGGER, { isFixed: true, topic }, () => {
      firing = fireTriggers(scene.partitions.control, 'b', [{ ...last, nextAt: undefined }]);
      return wanted(topic);
    });
    await firing;
    assert.equal((await scene.found()).fired, 2);
    assert.deepEqual(await scene.dueTimes(), [[2, 'inf']]);
  });

  test('gets the due time of a new schedule, or is paused', async () => {
    assert.equal(await scene.put(1, { nextAt: AHEAD + 5 }), 'changed');
    assert.deepEqual(await scene.dueTimes(), [[1, String(AHEAD + 5)]]);
    assert.equal(await scene.put(2, { isPaused: true }), 'changed');
    assert.deepEqual(await scene.dueTimes(), [[2, 'inf']]);
    assert.equal((await scene.found()).next_at, AHEAD + 5);
  });

  test('stays where it is if the topic is another client’s', async () => {
    const home = scene.partitions.all[2] as Partition;
    await home.redis.hset(home.keys.topic(scene.topics[2] as string), 'publisher', 'mill');
    assert.equal(await scene.put(2), 'claimed_by_other');
    assert.deepEqual(await scene.dueTimes(), [[0, String(AHEAD + 1000)]]);
  });

  test('is listed once while both partitions have it', async () => {
    const [from] = scene.partitions.all as [Partition];
    const listed = async () =>
      Promise.all([TRIGGER.client, undefined].map((client) => scene.triggers.names(client)));
    let during: Promise<unknown> | undefined;
    beforeScript(from, 'remove_trigger', () => (during = listed()));
    assert.equal(await scene.put(2), 'changed');
    assert.deepEqual(await during, [[TRIGGER], [TRIGGER]]);
  });

  for (const isPaused of [false, true])
    test(`goes on in one partition wherever its move is cut off, ${isPaused ? '' : 'not '}paused`, async () => {
      const seen: (string | undefined)[] = [];
      for (let isCut = true; isCut; seen.push((await scene.found()).topic)) {
        await scene.put(0);
        isCut = false;
        const mend = scene.cutOff(seen.length, () => (isCut = true));
        await scene.put(2, { isPaused }).catch((error: unknown) => assert.equal(error, CUT));
        mend();
        await workUntil(async () =>
          (await scene.dueTimes()).every(([, due]) => due === 'inf' || Number(due) > AHEAD),
        );
        const { topic, fired, missed, next_at, paused } = await scene.found();
        assert.deepEqual([fired, missed, next_at], [1, 2, AHEAD + 1000]);
        const isMoved = topic === scene.topics[2];
        assert.equal(paused, isMoved && isPaused);
        assert.deepEqual(await scene.dueTimes(), [[isMoved ? 2 : 0, paused ? 'inf' : String(AHEAD + 1000)]]);
      }
      assert.deepEqual(new Set(seen), new Set([scene.topics[0], scene.topics[2]]));
    });
});

describe('two puts of one trigger at once, with topics in two partitions,', () => {
  const later = { nextAt: AHEAD } as const;

  test('leave one trigger if both make it', async () => {
    assert.deepEqual(await Promise.all([scene.put(2, later), scene.put(1, later)]), ['created', 'created']);
    assert.deepEqual(await scene.dueTimes(), [[1, String(AHEAD)]]);
  });

  test('leave one trigger if both change it', async () => {
    await scene.put(0, later);
    assert.deepEqual(await Promise.all([scene.put(2), scene.put(1)]), ['changed', 'changed']);
    const [[place, due] = [], ...others] = await scene.dueTimes();
    assert.deepEqual([due, others], [String(AHEAD), []]);
    assert.equal((await scene.found()).topic, scene.topics[place ?? 0]);
  });

  test('leave the trigger of a third call that moves it while the second of two is removed', async () => {
    const [, home, other] = scene.partitions.all as [Partition, Partition, Partition];
    beforeScript(home, 'put_trigger', () => scene.put(2, later));
    beforeScript(other, 'remove_trigger', () => scene.put(2));
    assert.equal(await scene.put(1, later), 'created');
    assert.deepEqual(await scene.dueTimes(), [[2, String(AHEAD)]]);
  });
});

test('a client that was made while the partition of the topic was away gets its trigger', async () => {
  await new Clients(scene.partitions.control, []).register('shop', TRIGGER.client, { publish: ['topic_*'] });
  assert.equal(await scene.put(2, {}, false), 'created');
  const { redis, keys } = scene.partitions.all[2] as Partition;
  assert.equal(await redis.hget(keys.api_token(TRIGGER.client), 'publish'), 'topic_*');
  await new Clients(scene.partitions.control, []).remove(TRIGGER.client);
  assert.equal(await scene.put(1, {}, false), 'client_not_found');
});

test('a trigger moves between partitions that take long to answer', async () => {
  await scene.put(0);
  for (const partition of scene.partitions.all) {
    const command = partition.command.bind(partition);
    partition.command = async (send) => {
      const reply = await command(send);
      await sleep(600);
      return reply;
    };
  }
  assert.equal(await scene.put(1), 'changed');
});

/** Publishes due triggers of all partitions, as workers do, until `isDone` returns true. */
async function workUntil(isDone: () => Promise<boolean>): Promise<void> {
  const parts = {
    ...{ partitions: scene.partitions, confirmed: scene.partitions },
    guard: { check: () => undefined },
    recorder: new Recorder({ increment() {} }),
    log: capturedLog().log,
  };
  const workers = scene.partitions.all.map(
    (partition) => new DueTriggers({ ...parts, partition, limits: { ...LIMITS, ...RATES }, onFull() {} }),
  );
  await until(async () => {
    for (const worker of workers) await worker.publish();
    return isDone();
  });
}

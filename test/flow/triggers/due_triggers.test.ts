import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { capturedLog } from '../../../harness/captured_log.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { nameIn } from '../../../harness/scripts/crossing.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import {
  type Firing,
  fireTriggers,
  putTrigger,
  type WantedTrigger,
} from '../../../harness/scripts/triggers.ts';
import { until } from '../../../harness/until.ts';
import { Clients } from '../../../src/authentication/client.ts';
import { NameKey } from '../../../src/authentication/name_key.ts';
import { PublicNames } from '../../../src/authentication/public_names.ts';
import { readConfig } from '../../../src/config.ts';
import { StorageFull } from '../../../src/errors.ts';
import { agendaOf } from '../../../src/flow/agenda.ts';
import { DueTriggers } from '../../../src/flow/triggers/due_triggers.ts';
import { CATCH_UPS, plan } from '../../../src/flow/triggers/plan.ts';
import { timesOf } from '../../../src/flow/triggers/schedule.ts';
import { Recorder } from '../../../src/metrics/recorder.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const SECOND = { schedule: { every: 1000 }, start: 0, end: null, offset: 0 };

beforeEach(async () => {
  await redis.flush();
  await bus.subscribe('alice', { max: 10_000 });
});

function firing({ full = (): boolean => false } = {}) {
  const { log, lines } = capturedLog();
  const counted = new Map<string, number>();
  const increment = (name: string, tags: Record<string, string>, by = 1) => {
    const key = [name, ...Object.values(tags)].join(' ');
    counted.set(key, (counted.get(key) ?? 0) + by);
  };
  let filled = 0;
  const partitions = Partitions.on(redis.store.redis, {});
  const triggers = new DueTriggers({
    ...{ partition: redis.store, partitions, confirmed: partitions },
    guard: {
      check() {
        if (full()) throw new StorageFull();
        return undefined;
      },
    },
    limits: {
      maxTopics: 100,
      maxClientTopics: 100,
      maxOutboxBytes: 1000,
      publishRate: 0,
      publishBytes: 0,
      publishBurstMs: 10_000,
    },
    recorder: new Recorder({ increment }),
    log,
    onFull: () => filled++,
  });
  /** Publishes until nothing is due, as the scheduler does. */
  const publishAll = async () => {
    for (let left = 1; left > 0; ) {
      await triggers.publish();
      left = await redis.store.redis.zcount(redis.store.keys.triggers_due(), '-inf', await bus.nowMs());
    }
  };
  return { triggers, publishAll, lines, counted, filled: () => filled };
}

/** Resolves with the due times that were published, in order, by the name of the trigger. */
async function published(): Promise<Record<string, number[]>> {
  const events = Object.values((await bus.state()).batches).flatMap((batch) =>
    batch.events.map((each) => JSON.parse(each)),
  );
  const times: Record<string, number[]> = {};
  for (const { id, t } of events) {
    const [name = '', due] = id.split('@');
    assert.equal(Number(due), t);
    times[name] = [...(times[name] ?? []), t];
  }
  return times;
}

/** Puts a trigger that fires every second and has been due for `lateMs`. Resolves with its due time. */
async function putLate(name: string, lateMs: number, wanted: WantedTrigger = {}): Promise<number> {
  const dueMs = Math.floor((await bus.nowMs()) / 1000) * 1000 - lateMs;
  await putTrigger(redis.store, name, { timing: SECOND, nextAt: dueMs, ...wanted });
  return dueMs;
}

const rate = { ROUTEMASTER_PUBLISH_RATE: '1', ROUTEMASTER_PUBLISH_BURST: '3600' };

/** Returns the function with which workers fire the triggers of a partition, with a limit on rates. */
function firingIn(partition: Partition, partitions: Partitions): () => Promise<void> {
  const config = readConfig({ ROUTEMASTER_ROOT_KEY: 'root', ...rate });
  const { log } = capturedLog();
  return agendaOf({
    ...{ config, partition, partitions, confirmed: partitions, log, onFull: () => {} },
    recorder: new Recorder({ increment: () => {} }),
    publicNames: new PublicNames(new Clients(partitions.control, []), new NameKey(partitions.control)),
    outbox: { flush: async () => {} },
  }).triggers;
}

const state = (name: string) => redis.store.redis.hgetall(redis.store.keys.trigger('shop', name));

describe('a worker', () => {
  test('fires what is due, in several calls if it is much, and counts it', async () => {
    const daily = { schedule: { cron: '0 0 * * *', timezone: 'UTC' }, start: 0, end: null, offset: 0 };
    const dueMs = (await bus.nowMs()) - 50;
    for (let i = 0; i < 250; i++) await putTrigger(redis.store, `t${i}`, { timing: daily, nextAt: dueMs });
    const { publishAll, counted } = firing();
    await publishAll();
    assert.equal(Object.keys(await published()).length, 250);
    assert.equal(counted.get('triggers.fired'), 250);
    assert.equal(counted.get('events.published widgets'), 250);
    assert.equal(counted.get('events.added alice'), 250);
    assert.equal(
      [...counted]
        .filter(([name]) => name.startsWith('triggers.lateness.bucket'))
        .reduce((sum, [, n]) => sum + n, 0),
      250,
    );
    assert.ok((counted.get('triggers.lateness.sum') ?? 0) >= 50 * 250);
    await assertConsistent(redis.store);
  });

  test('fires all that fell due in the last ten seconds, and leaves what is older to `catch_up`', async () => {
    const startMs = await bus.nowMs();
    const promptMs = await putLate('prompt', 5000, { catchUp: 'none' });
    const lateMs: Record<string, number> = {};
    for (const catchUp of CATCH_UPS) lateMs[catchUp] = await putLate(catchUp, 300_000, { catchUp });
    const { publishAll, counted, lines } = firing();
    await publishAll();
    const times = await published();
    const nextAt = async (name: string) => Number((await state(name)).next_at);
    assert.deepEqual(times.prompt, seconds(promptMs, await nextAt('prompt')));
    assert.deepEqual(times.all, seconds(lateMs.all ?? 0, await nextAt('all')));
    // If a second begins during the test, `none` and `latest` also fire at its beginning, which is not late.
    const fired = { none: times.none?.[0] ?? (await nextAt('none')), latest: times.latest?.[0] ?? 0 };
    assert.deepEqual(times.none ?? [], seconds(fired.none, await nextAt('none')));
    assert.deepEqual(times.latest, seconds(fired.latest, await nextAt('latest')));
    assert.ok(fired.none > startMs, 'none skips what is late');
    assert.ok(fired.latest > startMs - 1000, 'latest publishes the last one only');
    const missed = async (name: string) => Number((await state(name)).missed);
    assert.deepEqual([await missed('prompt'), await missed('all')], [0, 0]);
    assert.equal(await missed('none'), (fired.none - (lateMs.none ?? 0)) / 1000);
    assert.equal(await missed('latest'), (fired.latest - (lateMs.latest ?? 0)) / 1000);
    assert.equal(counted.get('triggers.missed'), (await missed('none')) + (await missed('latest')));
    await until(() => lines.length > 0);
    assert.deepEqual(
      lines.map(({ msg, missed }) => [msg, missed]),
      [['triggers missed due times', { late: counted.get('triggers.missed') }]],
    );
    await assertConsistent(redis.store);
  });

  test('fires those of other clients in between while one catches up with a lot', async () => {
    for (const client of ['greedy', 'grasping'])
      for (let i = 0; i < 150; i++)
        await putLate(`${client}_${i}`, 900_000, { client, topic: client, catchUp: 'all' });
    const dueMs = await putLate('tick', 0);
    const { triggers } = firing();
    for (let n = 0; n < 3; n++) await triggers.publish();
    assert.equal((await published()).tick?.[0], dueMs);
  });

  test('fires nothing while memory is short; afterwards it is late', async () => {
    await putLate('tick', 1000);
    let isFull = true;
    const { triggers, filled } = firing({ full: () => isFull });
    await assert.rejects(triggers.publish(), StorageFull);
    assert.deepEqual(await published(), {});
    isFull = false;
    await redis.store.redis.config('SET', 'maxmemory', '1');
    await assert.rejects(triggers.publish(), StorageFull);
    assert.equal(filled(), 1, 'it asks for memory when Redis has none');
    await redis.store.redis.config('SET', 'maxmemory', '0');
    assert.deepEqual(await published(), {});
    await triggers.publish();
    assert.ok((await published()).tick);
  });

  test('goes on with the others if it cannot compute one', async () => {
    const mars = {
      schedule: { cron: '* * * * *', timezone: 'Mars/Olympus' },
      start: 0,
      end: null,
      offset: 0,
    };
    await putTrigger(redis.store, 'bad', { timing: mars, nextAt: (await bus.nowMs()) - 5 });
    await putLate('good', 0);
    const { publishAll, lines, counted } = firing();
    await publishAll();
    assert.ok((await published()).good);
    assert.equal((await state('bad')).error, 'internal');
    assert.equal(counted.get('triggers.missed'), 0);
    assert.match(String(lines[0]?.msg), /^cannot compute when a trigger fires/);
  });

  test('leaves a trigger that it cannot compute due, for a worker that can', async () => {
    const dueMs = (await bus.nowMs()) - 5;
    const timing = {
      schedule: { cron: '0 0 1 1 *', timezone: 'Mars/Olympus' },
      start: 0,
      end: null,
      offset: 0,
    };
    await putTrigger(redis.store, 'yearly', { timing, nextAt: dueMs, revision: 'r' });
    const { triggers, lines } = firing();
    await triggers.publish();
    const { keys, redis: commands } = redis.store;
    const againMs = Number(await commands.zscore(keys.triggers_due(), 'yearly shop'));
    assert.ok(againMs > dueMs && againMs <= (await bus.nowMs()) + 1000, 'it is tried again after a second');
    await until(async () => (await bus.nowMs()) >= againMs);
    await triggers.publish();
    assert.equal(lines.length, 1, 'the log says it once');
    const { next_at, missed, error } = await state('yearly');
    assert.deepEqual([next_at, missed, error], [String(dueMs), '0', 'internal']);
    const due = { client: 'shop', name: 'yearly', revision: 'r', dueAt: dueMs };
    await fireTriggers(redis.store, 'a', [{ ...due, times: [dueMs], missed: 0, nextAt: dueMs + 1 }]);
    assert.deepEqual((await published()).yearly, [dueMs]);
    assert.equal('error' in (await state('yearly')), false);
  });

  test('counts what its topic’s publisher keeps it from', async () => {
    await putLate('tick', 3000);
    await redis.store.run('remove_topic', { topic: 'widgets', series: [] });
    await bus.publishAll('b', ['widgets', 'mill', ['e1']]);
    const { publishAll, lines, counted } = firing();
    await publishAll();
    const { missed, error } = await state('tick');
    assert.equal(error, 'topic_claimed');
    assert.equal(String(counted.get('triggers.missed')), missed);
    assert.equal(counted.get('triggers.fired'), 0);
    await until(() => lines.length > 0);
    assert.deepEqual(lines[0]?.missed, { claimed_by_other: Number(missed) });
  });
});

const seconds = (fromMs: number, endMs: number) =>
  Array.from({ length: (endMs - fromMs) / 1000 }, (_, i) => fromMs + 1000 * i);

/** The part of a worker that fires triggers, step by step at times that the test gives. It calls the real scripts. */
class Worker {
  readonly #store: Partition;
  #firings: Firing[] = [];
  #calls = 0;

  constructor(store: Partition) {
    this.#store = store;
  }

  async read(nowMs: number): Promise<void> {
    const { due } = await this.#store.run('due_triggers', {
      limit: 100,
      firstClient: 0,
      maxOutboxBytes: 1000,
    });
    this.#firings = due
      .filter(({ dueAt }) => dueAt <= nowMs)
      .map(({ timing, catchUp, ...trigger }) => {
        const { nextMs, ...rest } = plan({
          times: timesOf(JSON.parse(timing)),
          catchUp,
          dueMs: trigger.dueAt,
          nowMs,
        });
        return { ...trigger, ...rest, nextAt: nextMs };
      });
  }

  /** Fires the due times read last. May be called again, as if the reply was lost or the call came late. */
  async fire(): Promise<void> {
    const seed = String.fromCharCode(97 + (this.#calls++ % 26));
    await fireTriggers(this.#store, seed, this.#firings);
  }
}

test('triggers of all partitions share the rate of their client, which is in the control partition', async () => {
  const partitions = Partitions.on(redis.store.redis, { partitions: 2 });
  const { control } = partitions;
  const elsewhere = partitions.all[1] as Partition;
  const dueMs = Math.floor((await bus.nowMs()) / 1000) * 1000 - 5000;
  const put = (name: string) =>
    putTrigger(elsewhere, name, { topic: nameIn(partitions, 1, 'topic'), timing: SECOND, nextAt: dueMs });
  const fire = firingIn(elsewhere, partitions);
  await put('first');
  await fire();
  const events = await until(() => control.redis.hget(control.keys.rate('shop'), 'events'));
  assert.ok(Number(events) / 1000 > (await bus.nowMs()) + 5000, 'it has counted six events or more');
  assert.equal(await elsewhere.redis.exists(elsewhere.keys.rate('shop')), 0);
  const limits = { burstMs: 3_600_000, eventsPerSecond: 1, bytesPerSecond: 0 };
  await control.run('spend', {
    ...limits,
    demands: [{ client: 'shop', events: 3600, bytes: 1, isAdmitted: true }],
  });
  const stateOf = (name: string) => elsewhere.redis.hgetall(elsewhere.keys.trigger('shop', name));
  // The worker learns that nothing is left when it charges what it has fired.
  await until(async () => {
    await put('late');
    await fire();
    return (await stateOf('late')).error === 'rate_limited';
  });
});

test('each due time is fired once, however two workers and the client come between each other', async () => {
  const action = fc.oneof(
    fc.record({ kind: fc.constant('passes' as const), ms: fc.integer({ min: 1, max: 5000 }) }),
    fc.record({ kind: fc.constantFrom('reads' as const, 'fires' as const), worker: fc.nat(1) }),
    fc.record({
      kind: fc.constantFrom('pauses' as const, 'replaces' as const),
      trigger: fc.constantFrom('a', 'b'),
    }),
  );
  const property = fc.asyncProperty(fc.array(action, { maxLength: 60 }), async (actions) => {
    await redis.flush();
    await bus.subscribe('alice', { max: 10_000 });
    const startMs = Math.floor((await bus.nowMs()) / 1000) * 1000 - 400_000;
    let nowMs = startMs;
    const settings = { a: 1000, b: 1700 } as const;
    const put = (name: 'a' | 'b', wanted: WantedTrigger = {}) =>
      putTrigger(redis.store, name, {
        catchUp: 'all',
        timing: { schedule: { every: settings[name] }, start: startMs, end: null, offset: 0 },
        ...wanted,
      });
    for (const name of ['a', 'b'] as const) await put(name, { nextAt: startMs });
    const workers = [new Worker(redis.store), new Worker(redis.store)];
    for (const each of actions) {
      if (each.kind === 'passes') nowMs += each.ms;
      else if ('trigger' in each) await put(each.trigger, { paused: each.kind === 'pauses' });
      else if (each.kind === 'reads') await workers[each.worker]?.read(nowMs);
      else await workers[each.worker]?.fire();
    }
    for (const name of ['a', 'b'] as const) await put(name);
    // Twelve rounds are enough until nothing is due.
    for (let i = 0; i < 12; i++) {
      await workers[0]?.read(nowMs);
      await workers[0]?.fire();
    }
    const times = await published();
    for (const name of ['a', 'b'] as const) {
      const count = Math.floor((nowMs - startMs) / settings[name]) + 1;
      assert.deepEqual(
        times[name],
        Array.from({ length: count }, (_, i) => startMs + i * settings[name]),
      );
    }
    await assertConsistent(redis.store);
  });
  await fc.assert(property, { numRuns: 40 });
});

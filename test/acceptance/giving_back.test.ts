import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { batchHandler } from '../../harness/batch_handler.ts';
import { capturedLog } from '../../harness/captured_log.ts';
import { answer, Receiver } from '../../harness/http/receiver.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { subscribersIn, subscriptionsOf } from '../../harness/subscriptions.ts';
import { until } from '../../harness/until.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { DONE, type JobHandler } from '../../src/delivering/settlement.ts';
import { Workers } from '../../src/delivering/workers.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import { uidSeed, uids } from '../../src/ids.ts';
import { promoteDue } from '../../src/maintenance/promoting.ts';
import { eventText } from '../../src/publishing/event.ts';
import { Listener } from '../../src/store/listener.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { Wakeups } from '../../src/store/wakeups.ts';

const GRACE_MS = 200;
const MINUTE_MS = 60_000;
const QUEUE_SETTINGS = { laneLimit: 10, laneLimitMax: 100, leaseMs: MINUTE_MS, deliveryLog: 1000 };

const redis = new TestStore();

/** Returns workers wired as in a delivery thread. A delivery may take longer than they wait when they stop. */
function workersFor(t: TestContext): Workers {
  const { store } = redis;
  const { log } = capturedLog();
  const wakeups = new Wakeups(new Listener(store.redis), store.keys);
  const { handler, recorder, close } = batchHandler(store, log);
  const queue = new Queue(store, 'main', QUEUE_SETTINGS);
  const parts = { queue, handler, recorder, log };
  const workers = new Workers(parts, { ids: uids(4), tickMs: 1000 });
  wakeups.on('main', () => workers.wake());
  t.after(async () => {
    await workers.stop(0);
    wakeups.close();
    await close();
  });
  return workers;
}

// The worker process waits 22 s for deliveries when it stops, too long for a test. So the class `Workers` is tested.
test('a delivery that outlasts the stop is given back, and another worker acquires it at once', async (t) => {
  const { store } = redis;
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  const wanted = { topics: ['widgets'], callback: receiver.callback, uuid: '', timeout: 0, max_events: 1 };
  await subscriptionsOf(store).subscribe('me', wanted);
  const event = {
    id: 'e1',
    topic: 'widgets',
    type: 'create',
    url: 'https://shop.example.com/1',
    timestamp: 1,
  } as const;
  const events = [eventText(event)];
  const publications = [{ topic: 'widgets', client: 'shop', events }];
  await store.run('publish', { uidSeed: uidSeed(), ...PUBLISH_LIMITS, publications });

  receiver.answers(answer.hang);
  const workers = workersFor(t);
  workers.start();
  const first = await receiver.delivery(1);
  const beganMs = performance.now();
  await workers.stop(GRACE_MS);
  const tookMs = performance.now() - beganMs;
  assert.ok(tookMs >= GRACE_MS - 1 && tookMs < 5000, `it took ${tookMs} ms`);
  assert.equal(await store.redis.llen(store.keys.jobs_instant('main')), 1, 'its job is instant again');
  assert.deepEqual(await store.redis.hgetall(store.keys.workers()), {}, 'its workers are retired');
  await assertConsistent(store);

  const others = workersFor(t);
  others.start();
  const second = await receiver.delivery(2);
  assert.deepEqual([second.id, second.attempt], [first.id, 1], 'what was given back does not count');
  const sent = async () => (await subscribersIn(new Partitions(store)).read(['me']))[0];
  await until(async () => (await sent())?.events.sent === 1);
  assert.equal((await sent())?.health_points, 100, 'the subscriber is not to blame');
  await others.stop(GRACE_MS);
  await assertConsistent(store);
  await assertNothingToSweep(store);
});

test('a periodic job during which Redis went away runs again within moments, since its name is still taken', async (t) => {
  const { store } = redis;
  const queue = new Queue(store, 'aux', QUEUE_SETTINGS);
  const { log, lines } = capturedLog();
  const wakeups = new Wakeups(new Listener(store.redis), store.keys);
  t.after(() => wakeups.close());
  let runs = 0;
  const handler: JobHandler = async () => {
    if (++runs === 1) throw new StorageUnavailable(new Error('cut'));
    return DONE;
  };
  const recorder = { removed: () => {}, buried: () => {} };
  const workers = new Workers({ queue, handler, recorder, log }, { ids: uids(1), tickMs: 1000 });
  wakeups.on('aux', () => workers.wake());
  workers.start();
  await queue.enqueue('scrub');
  await until(async () => (await promoteDue(store)).promoted === 1);
  await until(() => runs === 2);
  await workers.stop(GRACE_MS);
  assert.deepEqual(
    lines.filter(({ level }) => Number(level) >= 50),
    [],
  );
  await assertConsistent(store);
  await assertNothingToSweep(store);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { jobName, nthWord } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { readConfig } from '../../src/config.ts';
import { OneAtATime } from '../../src/delivering/one_at_a_time.ts';
import { Maintenance } from '../../src/maintenance/maintenance.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { Outbox } from '../../src/publishing/outbox.ts';
import { connectListener } from '../../src/store/connection.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { Wakeups } from '../../src/store/wakeups.ts';
import { TopicMarks } from '../../src/subscribing/topic_marks.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const BATCHES = 10_000;

test('a stopping process does not wait for a sweep to finish', async () => {
  const { store } = redis;
  await bus.subscribe('alice', { max: 1 });
  for (let n = 0; n < BATCHES; n += 1000)
    await bus.publish(nthWord(n / 1000), 'widgets', Array(1000).fill('e'));
  // A sweep looks at gauges last.
  await store.redis.hincrby(store.keys.gauge_events(), 'alice', 1);
  const { log, lines } = capturedLog();
  const wakeups = new Wakeups(connectListener(redis.redis.url, log), store.keys);
  const recorder = new Recorder({ increment: () => {} });
  const partitions = new Partitions(store);
  const outbox = new Outbox({
    applying: partitions,
    ...{ figures: recorder, marks: new TopicMarks(partitions), limits: PUBLISH_LIMITS, log },
  });
  const maintenance = new Maintenance(readConfig({ ROUTEMASTER_ROOT_KEY: 'root' }), {
    partition: store,
    partitions,
    outbox,
    publicNames: new PublicNames(new Clients(store, []), new NameKey(store)),
    wakeups,
    recorder,
    sweeps: new OneAtATime(),
    log,
  });
  maintenance.start();
  const held = async () => {
    const lists = await store.redis.keys(store.keys.jobs_pending('aux', '*'));
    const jobs = await Promise.all(lists.map((list) => store.redis.lrangeBuffer(list, 0, -1)));
    return jobs.flat().map(jobName);
  };
  await until(async () => (await held()).includes('sweep'), { everyMs: 5 });
  await maintenance.stop(60_000);
  assert.equal(await store.redis.hget(store.keys.gauge_events(), 'alice'), String(BATCHES + 1));
  assert.deepEqual(await held(), []);
  assert.ok(!lines.some(({ msg }) => /sweep/.test(String(msg))));
});

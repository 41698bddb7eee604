import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openStore } from '../../harness/redis/store.ts';
import { b1, found, provokedKinds, redis } from '../../harness/scripts/breaking.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { shortName } from '../../harness/scripts/names.ts';
import { assertNothingToSweep, writes } from '../../harness/scripts/sweep.ts';
import { until } from '../../harness/until.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import { FINDING_KINDS, type Finding } from '../../src/maintenance/sweep/finding.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import { Partition } from '../../src/store/partition.ts';
import './sweep/batches.ts';
import './sweep/dead_letters.ts';
import './sweep/delayed.ts';
import './sweep/gauges.ts';
import './sweep/jobs.ts';
import './sweep/joins.ts';
import './sweep/lanes.ts';
import './sweep/records.ts';
import './sweep/ruby.ts';
import './sweep/triggers.ts';

test('a sweep of a consistent Redis finds nothing and writes nothing', async () => {
  await assertConsistent(redis.store);
  const before = await writes(redis.store);
  assert.deepEqual(await found(), []);
  assert.equal(await writes(redis.store), before);
});

describe('a sweep', () => {
  test('takes another part each time if there are more jobs than it can hold', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.del(keys.jobs_scheduled('main'));
    await commands.del(keys.jobs_waiting('alice'));
    const names = new Set<string>();
    const wanted = ['job_in_no_state a3', 'job_in_no_state a4', 'job_in_no_state b1'];
    await until(async () => {
      for (const { kind, name } of await sweep(redis.store, { maxJobs: 2 }))
        names.add(`${kind} ${shortName(name)}`);
      return names.size >= wanted.length;
    });
    assert.deepEqual([...names].sort(), wanted);
    await assertConsistent(redis.store);
  });

  test('reports each finding as it is mended', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.zrem(keys.batches_index(), b1);
    await commands.hincrby(keys.gauge_events(), 'alice', 1);
    const told: Finding[] = [];
    const findings = await sweep(redis.store, { findings: told });
    assert.deepEqual(told, [
      { kind: 'batch_unindexed', name: b1 },
      { kind: 'events_miscounted', name: 'alice' },
    ]);
    assert.equal(findings, told);
  });

  test('ends early when it is aborted', async () => {
    await redis.store.redis.hincrby(redis.store.keys.gauge_events(), 'alice', 1);
    assert.deepEqual(await sweep(redis.store, { signal: AbortSignal.abort() }), []);
    assert.deepEqual(await found(), ['events_miscounted alice']);
  });

  test('rejects while Redis is away', async () => {
    const store = await openStore(redis.redis.url);
    store.redis.disconnect();
    await assert.rejects(sweep(store), StorageUnavailable);
  });

  test('finds nothing of another partition', async () => {
    await redis.store.redis.hincrby(redis.store.keys.gauge_events(), 'alice', 1);
    await assertNothingToSweep(new Partition(redis.store.redis, { prefix: '{1}:' }));
  });
});

test('the tests above provoke each kind of finding', () => {
  assert.deepEqual(
    Object.keys(FINDING_KINDS).filter((kind) => !provokedKinds.has(kind)),
    [],
  );
});

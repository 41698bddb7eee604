import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Broken, breaks, bus, redis } from '../../../harness/scripts/breaking.ts';
import { packNamed } from '../../../harness/scripts/names.ts';
import { assertNothingToSweep } from '../../../harness/scripts/sweep.ts';

describe('workers', () => {
  for (const [worker, q] of [
    ['w1', 'main'],
    ['x1', 'aux'],
  ] as const) {
    breaks(
      `that hold a job are in the index: ${worker}`,
      ({ redis, keys }) => redis.srem(keys.jobs_pending_index(q), worker),
      `worker_unindexed ${worker}`,
    );
  }

  breaks(
    'that hold none have no lease',
    ({ redis, keys }) => redis.hset(keys.leases(), 'w9', 1),
    'worker_idle w9',
  );

  breaks(
    'that hold none are in no lane, and it goes on',
    async ({ redis, keys }) => {
      await redis.hset(keys.lanes_held(), 'w9', 'alice');
      await redis.hincrby(keys.lanes_in_flight(), 'alice', 1);
      await redis.sadd(keys.share_workers('slow'), 'w9');
    },
    'worker_idle w9',
  );

  breaks(
    'that hold none are in no share',
    ({ redis, keys }) => redis.sadd(keys.share_workers('slow'), 'w9'),
    'worker_idle w9',
  );

  breaks(
    'that deliver are in the lane of the subscriber',
    async ({ redis, keys }) => {
      await redis.hdel(keys.lanes_held(), 'w1');
      await redis.hincrby(keys.lanes_in_flight(), 'alice', -1);
    },
    'worker_out_of_lane w1',
  );
});

describe('lanes', () => {
  for (const [what, how] of Object.entries<(broken: Broken) => Promise<unknown>>({
    'too many': ({ redis, keys }) => redis.hincrby(keys.lanes_in_flight(), 'alice', 3),
    'none where there are some': ({ redis, keys }) => redis.hdel(keys.lanes_in_flight(), 'alice'),
  })) {
    breaks(`count their workers: ${what}`, how, 'lane_miscounted alice');
  }

  for (const count of [1, 'no number'])
    breaks(
      `in which nobody is are not counted: ${count}`,
      ({ redis, keys }) => redis.hset(keys.lanes_in_flight(), 'nobody', count),
      'lane_miscounted nobody',
    );

  breaks(
    'in which all wait go on',
    async ({ redis, keys }) => {
      await bus.nack('w1', 'a1', { pause: 1 });
      await bus.nack('w2', 'a2', { pause: 1 });
      await redis.hdel(keys.subscriber('alice'), 'paused_at');
    },
    'lane_stuck alice',
  );

  test('that are paused wait', async () => {
    await bus.nack('w1', 'a1', { pause: 1 });
    await bus.nack('w2', 'a2', { pause: 1 });
    assert.equal((await bus.state()).lanes.waiting.alice?.length, 4);
    await assertNothingToSweep(redis.store);
  });

  breaks(
    'that wait for a probe that is no job do so no longer',
    ({ redis, keys }) => redis.hset(keys.subscriber('alice'), 'probe', packNamed('x1')),
    'probe_lost alice',
  );
});

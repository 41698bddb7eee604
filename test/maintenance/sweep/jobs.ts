import { describe, test } from 'node:test';
import { A3, B1, breaks, redis } from '../../../harness/scripts/breaking.ts';
import { packNamed } from '../../../harness/scripts/names.ts';
import { assertNothingToSweep } from '../../../harness/scripts/sweep.ts';

describe('jobs', () => {
  breaks(
    'in no state are instant again: one that was scheduled',
    ({ redis, keys }) => redis.zrem(keys.jobs_scheduled('main'), B1),
    'job_in_no_state b1',
  );

  breaks(
    'in no state are instant again: one that waited',
    ({ redis, keys }) => redis.zrem(keys.jobs_waiting('alice'), A3),
    'job_in_no_state a3',
  );

  breaks(
    'in no state are instant again: one of aux',
    ({ redis, keys }) => redis.del(keys.jobs_instant('aux')),
    'job_in_no_state scrub',
  );

  breaks(
    'in no state are instant again: one that a worker held',
    ({ redis, keys }) => redis.del(keys.jobs_pending('main', 'w1')),
    'job_in_no_state a1',
    'worker_idle w1',
  );

  breaks(
    'in two states are in one: scheduled and instant',
    ({ redis, keys }) => redis.lpush(keys.jobs_instant('main'), B1),
    'job_in_two_states b1',
  );

  breaks(
    'in two states are in one: instant twice',
    ({ redis, keys }) => redis.lpush(keys.jobs_instant('main'), packNamed('cc1')),
    'job_in_two_states cc1',
  );

  breaks(
    'in two states are in one: held, waiting, and twice for its share',
    async ({ redis, keys }) => {
      const job = packNamed('a1');
      await redis.zadd(keys.jobs_waiting('alice'), 1, job);
      await redis.rpush(keys.share_jobs('slow'), job, job);
    },
    'job_in_two_states a1',
  );

  breaks(
    'in two states are in one: held by two workers',
    async ({ redis, keys }) => {
      await redis.lpush(keys.jobs_pending('main', 'w9'), packNamed('a1'));
      await redis.sadd(keys.jobs_pending_index('main'), 'w9');
      await redis.hset(keys.leases(), 'w9', '7');
      await redis.hset(keys.lanes_held(), 'w9', 'alice');
      await redis.hincrby(keys.lanes_in_flight(), 'alice', 1);
    },
    'job_in_two_states a1',
  );

  for (const [job, q] of [
    ['b1', 'main'],
    ['a1', 'main'],
    ['a3', 'main'],
    ['d2', 'main'],
    ['cc1', 'main'],
    ['scrub', 'aux'],
    ['monitor', 'aux'],
  ] as const) {
    breaks(
      `that the index lacks are put in: ${job}`,
      ({ redis, keys }) => redis.srem(keys.jobs_index(q), packNamed(job)),
      `job_unindexed ${job}`,
    );
  }

  breaks(
    'of a batch that is gone are forgotten: in the index, scheduled, waiting',
    async ({ redis, keys }) => {
      const [indexed, scheduled, waiting] = ['x1', 'y1', 'z1'].map(packNamed);
      await redis.sadd(keys.jobs_index('main'), indexed ?? '');
      await redis.zadd(keys.jobs_scheduled('main'), 1, scheduled ?? '');
      await redis.zadd(keys.jobs_waiting('alice'), 1, waiting ?? '');
    },
    'job_without_batch x1',
    'job_without_batch y1',
    'job_without_batch z1',
  );

  test('of dropped batches may be left in the instant list', async () => {
    await redis.store.redis.lpush(redis.store.keys.jobs_instant('main'), packNamed('x1'));
    await assertNothingToSweep(redis.store);
  });
});

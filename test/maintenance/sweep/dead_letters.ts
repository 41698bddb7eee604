import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { breaks, c1, found, redis } from '../../../harness/scripts/breaking.ts';
import { packNamed } from '../../../harness/scripts/names.ts';

describe('dead letters', () => {
  for (const part of ['dead_letters_index', 'dead_letters_of', 'dead_letter_about'] as const) {
    breaks(
      `without ${part} get it`,
      ({ redis, keys }) => {
        if (part === 'dead_letters_index') return redis.zrem(keys.dead_letters_index(), c1);
        if (part === 'dead_letters_of') return redis.zrem(keys.dead_letters_of('carol'), c1);
        return redis.del(keys.dead_letter_about(c1));
      },
      'dead_letter_incomplete c1',
    );
  }

  breaks(
    'that are gone leave nothing behind',
    ({ redis, keys }) => redis.del(keys.dead_letter(c1)),
    'attempts_without_batch c1',
    'entry_without_dead_letter c1',
    'entry_without_dead_letter c1',
    'entry_without_dead_letter c1',
    'dead_letters_miscounted carol',
  );

  breaks(
    'have no job',
    ({ redis, keys }) => redis.sadd(keys.jobs_index('main'), packNamed('c1')),
    'job_without_batch c1',
  );

  test('that are no list are left alone, but not listed', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.del(keys.dead_letter(c1));
    await commands.set(keys.dead_letter(c1), 'no list');
    const unreadable = 'dead_letter_unreadable c1';
    const entry = 'entry_without_dead_letter c1';
    const expected = [unreadable, 'dead_letters_miscounted carol', entry, entry];
    assert.deepEqual(await found(), expected);
    assert.equal(await commands.zscore(keys.dead_letters_index(), c1), null);
    assert.deepEqual(await found(), [unreadable]);
  });

  test('that nobody can read are left alone', async () => {
    const { redis: commands, keys } = redis.store;
    await commands.lset(keys.dead_letter(c1), 1, 'yesterday');
    assert.deepEqual(await found(), ['dead_letter_unreadable c1']);
  });
});

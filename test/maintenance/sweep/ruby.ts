import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RubyWeb, rubyEvent } from '../../../harness/redis/ruby_processes.ts';
import { b1, breaks, bus, found, redis } from '../../../harness/scripts/breaking.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { longName } from '../../../harness/scripts/names.ts';
import { assertNothingToSweep } from '../../../harness/scripts/sweep.ts';

const STRAY = 'rubyrubyrubyrubyruby';

describe('batches of a Ruby process', () => {
  breaks(
    'become batches of this bus, and get a job',
    async ({ redis }) => {
      await redis.rpush(
        `batches:${STRAY}`,
        'bob',
        1_795_166_914_000,
        0,
        rubyEvent('gadgets', 'https://a.example/1'),
      );
      await redis.zadd('batches:index', 1_795_166_914_000, STRAY);
      await redis.sadd('batches:current:bob', STRAY);
      await redis.hincrby('batches:gauges:batch', 'bob', 1);
      await redis.hincrby('batches:gauges:event', 'bob', 1);
    },
    `batch_of_ruby ${STRAY}`,
  );

  test('are adopted with what a web process appended to a batch of this bus, as a batch of its own', async () => {
    const { redis: commands } = redis.store;
    await commands.sadd('batches:current:bob', b1);
    const web = new RubyWeb(commands);
    assert.deepEqual(await web.publish('gadgets', 'https://a.example/1'), [b1]);
    await web.publish('gadgets', 'https://a.example/2');
    assert.equal(await commands.llen(`batches:${b1}`), 2, 'events without a header');
    assert.deepEqual(await found(), ['batch_of_ruby b1']);
    await assertConsistent(redis.store);
    await assertNothingToSweep(redis.store);
    const { batches, gauges } = await bus.state();
    const [adopted] = Object.values(batches).filter(
      ({ token, events }) => token === 'bob' && events.length === 2,
    );
    assert.equal(adopted?.attempts, 0);
    assert.deepEqual([gauges.batches.bob, gauges.events.bob], [2, 3]);
  });

  test('that nobody can be told to own are left alone, and reported by each sweep', async () => {
    const { redis: commands } = redis.store;
    const lost = longName('gone1');
    await commands.rpush(`batches:${lost}`, rubyEvent('gadgets', 'https://a.example/1'));
    assert.deepEqual(await found(), ['batch_of_ruby_unreadable gone1']);
    assert.deepEqual(await found(), ['batch_of_ruby_unreadable gone1']);
    assert.equal(await commands.llen(`batches:${lost}`), 1);
  });
});

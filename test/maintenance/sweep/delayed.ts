import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { breaks, bus, found, HOUR_MS, redis } from '../../../harness/scripts/breaking.ts';
import { readDelayed } from '../../../harness/scripts/delayed.ts';
import { assertNothingToSweep } from '../../../harness/scripts/sweep.ts';

describe('delayed events', () => {
  beforeEach(async () => {
    const later = (n: number) => ({ id: `e${n}`, delay: n * HOUR_MS });
    await bus.delay('x', 'widgets', [later(1), later(2), later(3)]);
    await bus.delay('y', 'gadgets', [later(4)]);
  });

  breaks(
    'an entry without its text',
    ({ redis, keys }) => redis.hdel(keys.delayed_events('widgets'), 'e2'),
    'delayed_without_text widgets e2',
    'delayed_bytes_miscounted widgets',
    'delayed_miscounted shop',
  );
  breaks(
    'the first entry without its text',
    ({ redis, keys }) => redis.hdel(keys.delayed_events('widgets'), 'e1'),
    'delayed_without_text widgets e1',
    'delayed_bytes_miscounted widgets',
    'delayed_topic_misplaced widgets',
    'delayed_miscounted shop',
  );
  breaks(
    'the only entry without its text',
    ({ redis, keys }) => redis.del(keys.delayed_events('gadgets')),
    'delayed_without_text gadgets e4',
    'delayed_bytes_miscounted gadgets',
    'delayed_topic_misplaced gadgets',
    'delayed_miscounted shop',
  );
  breaks(
    'a text without its entry, whose event is due at once then',
    async ({ redis, keys }) => {
      const [, second = ''] = await redis.zrange(keys.delayed_due('widgets'), '0', '-1');
      await redis.zrem(keys.delayed_due('widgets'), second);
    },
    'delayed_without_entry widgets e2',
  );
  breaks(
    'texts without any entry',
    ({ redis, keys }) => redis.del(keys.delayed_due('gadgets')),
    'delayed_topic_misplaced gadgets',
    'delayed_without_entry gadgets e4',
  );
  breaks(
    'a topic that is not listed',
    ({ redis, keys }) => redis.zrem(keys.delayed_topics(), 'widgets'),
    'delayed_topic_misplaced widgets',
  );
  breaks(
    'a topic that is listed too late',
    ({ redis, keys }) => redis.zincrby(keys.delayed_topics(), 1, 'widgets'),
    'delayed_topic_misplaced widgets',
  );
  breaks(
    'a topic that is listed without any',
    ({ redis, keys }) => redis.zadd(keys.delayed_topics(), 1, 'gizmos'),
    'delayed_topic_misplaced gizmos',
  );
  breaks(
    'events of a topic that does not exist',
    async ({ redis, keys }) => {
      await redis.srem(keys.topics(), 'widgets');
      await redis.del(keys.topic('widgets'), keys.topic_subscribers('widgets'));
      await redis.srem(keys.topics_owned('shop'), 'widgets');
      for (const token of await redis.smembers(keys.subscribers()))
        await redis.srem(keys.subscriber_topics(token), 'widgets');
    },
    'delayed_without_topic widgets',
    'delayed_miscounted shop',
  );
  for (const field of [':events', ':bytes', 'widgets', 'unheard_of'])
    breaks(
      `what a client holds: ${field}`,
      ({ redis, keys }) => redis.hincrby(keys.delayed_held('shop'), field, 7),
      field === 'widgets' ? 'delayed_bytes_miscounted widgets' : 'delayed_miscounted shop',
    );
  breaks(
    'what a client holds is missing',
    ({ redis, keys }) => redis.del(keys.delayed_held('shop')),
    'delayed_bytes_miscounted gadgets',
    'delayed_bytes_miscounted widgets',
    'delayed_miscounted shop',
  );
  breaks(
    'what a client holds that has none',
    ({ redis, keys }) => redis.hset(keys.delayed_held('nobody'), ':events', 3),
    'delayed_miscounted nobody',
  );

  test('of a topic with many are checked in several calls, though some come and go', async () => {
    const many = (name: string) =>
      Array.from({ length: 1000 }, (_, n) => ({ id: `${name}${n}`, delay: HOUR_MS }));
    await bus.delay('z', 'gizmos', many('m'));
    let over = false;
    const traffic = async () => {
      for (let n = 0; !over; n++) {
        await bus.delay('z', 'gizmos', [{ id: `t${n}`, delay: HOUR_MS + n }]);
        await bus.store.run('delete_delayed', { topic: 'gizmos', id: `m${n}` });
      }
    };
    const busy = traffic();
    await assertNothingToSweep(redis.store);
    over = true;
    await busy;
    await redis.store.redis.hdel(redis.store.keys.delayed_events('gizmos'), 'm999');
    assert.deepEqual(await found(), [
      'delayed_bytes_miscounted gizmos',
      'delayed_miscounted shop',
      'delayed_without_text gizmos m999',
    ]);
    await assertNothingToSweep(redis.store);
  });

  test('that were entered again are published at once', async () => {
    await redis.store.redis.del(redis.store.keys.delayed_due('gadgets'));
    await found();
    assert.deepEqual((await bus.publishDelayed('z')).published, { gadgets: 1 });
    assert.equal((await readDelayed(redis.store)).gadgets, undefined);
  });
});

import assert from 'node:assert/strict';
import type { Readable } from './image.ts';

/** Asserts that subscriptions are stored on both sides, and that topics and subscribers are listed. */
export async function assertSubscriptions({ redis, keys }: Readable): Promise<void> {
  const topics = await redis.smembers(keys.topics());
  const subscribers = await redis.smembers(keys.subscribers());
  // Among several partitions a topic may live in another one (crossing.ts).
  const isAlone = !keys.schema().includes('{');
  for (const token of subscribers) {
    assert.equal(await redis.exists(keys.subscriber(token)), 1, `${token} has its hash`);
    for (const topic of await redis.smembers(keys.subscriber_topics(token))) {
      if (isAlone) assert.ok(topics.includes(topic), `${topic} is a topic`);
      assert.equal(await redis.sismember(keys.topic_subscribers(topic), token), 1);
    }
  }
  for (const key of await redis.keys(keys.topic_subscribers('*'))) {
    const topic = key.slice(keys.topic_subscribers('').length);
    for (const token of await redis.smembers(key)) {
      assert.ok(subscribers.includes(token), `${token} is a subscriber`);
      assert.equal(await redis.sismember(keys.subscriber_topics(token), topic), 1);
    }
  }
  for (const key of await redis.keys(keys.topic('*'))) {
    assert.ok(topics.includes(key.slice(keys.topic('').length)), `${key} is listed`);
  }
  await assertOwners({ redis, keys });
  for (const key of await redis.keys(keys.subscriber('*'))) {
    assert.ok(subscribers.includes(key.slice(keys.subscriber('').length)), `${key} is listed`);
  }
}

/**
 * Asserts that each topic in the list of the topics that a client owns is really owned by this client. (A topic may be
 * missing in the list: a sweep adds the topics of an earlier release.)
 */
async function assertOwners({ redis, keys }: Readable): Promise<void> {
  for (const key of await redis.keys(keys.topics_owned('*'))) {
    const owner = key.slice(keys.topics_owned('').length);
    for (const topic of await redis.smembers(key))
      assert.equal(await redis.hget(keys.topic(topic), 'publisher'), owner, `${owner} owns ${topic}`);
  }
}

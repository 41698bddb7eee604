import assert from 'node:assert/strict';
import type { Partition } from '../../src/store/partition.ts';
import type { Partitions } from '../../src/store/partitions.ts';
import { marksIn } from '../../src/subscribing/topic_marks.ts';
import { assertConsistent } from './invariants.ts';

/** Returns a name that begins with `stem`, and that a topic in the partition with this index could have. */
export function nameIn(partitions: Partitions, index: number, stem: string): string {
  for (let n = 0; ; n++) if (partitions.ofTopic(`${stem}${n}`).index === index) return `${stem}${n}`;
}

/**
 * Checks each partition by itself, and that partitions agree. A topic must be listed only in its home, the partition
 * where it lives. If the topic has subscribers in another partition, its home must have a mark for that partition, with
 * the number of these subscribers. Outboxes (events on their way to other partitions) must be empty.
 */
export async function assertPartitionsConsistent(partitions: Partitions): Promise<void> {
  for (const partition of partitions.all) {
    await assertConsistent(partition);
    await assertTopicsAtHome(partitions, partition);
    await assertMarked(partitions, partition);
    const { redis, keys } = partition;
    const lists = [keys.outbox(), ...(await redis.keys(keys.outbox_aside('*')))];
    assert.equal(await redis.exists(...lists), 0, 'outboxes are empty');
  }
}

async function assertTopicsAtHome(partitions: Partitions, { redis, keys, index }: Partition): Promise<void> {
  for (const topic of await redis.smembers(keys.topics())) {
    assert.equal(partitions.ofTopic(topic).index, index, `${topic} is listed in its home`);
    const marks = marksIn(await redis.hget(keys.topic(topic), 'elsewhere'));
    const counts = await Promise.all(
      partitions.all.map((each) =>
        each.index === index ? 0 : each.redis.scard(each.keys.topic_subscribers(topic)),
      ),
    );
    const counted = counts.flatMap((count, each) => (count > 0 ? [[each, count]] : []));
    const marked = [...marks].map(([partition, { subscribers }]) => [partition, subscribers]).sort();
    assert.deepEqual(marked, counted.sort(), `${topic} has the marks of its subscribers elsewhere`);
  }
}

/** Asserts that each topic with subscribers in the partition has a mark for it in the topic's home. */
async function assertMarked(partitions: Partitions, { redis, keys, index }: Partition): Promise<void> {
  for (const key of await redis.keys(keys.topic_subscribers('*'))) {
    const topic = key.slice(keys.topic_subscribers('').length);
    const home = partitions.ofTopic(topic);
    assert.equal(await home.redis.sismember(home.keys.topics(), topic), 1, `${topic} is a topic`);
    if (home.index === index) continue;
    const marks = marksIn(await home.redis.hget(home.keys.topic(topic), 'elsewhere'));
    assert.ok(marks.has(index), `${topic} is marked for partition ${index}`);
  }
}

/** Stores in each partition that it has the data of a bus, as the start of a process does. */
export async function beginBus({ all }: Partitions): Promise<void> {
  for (const { redis, keys } of all) await redis.set(keys.schema(), 2);
}

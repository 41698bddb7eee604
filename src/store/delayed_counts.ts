import { slicesOf } from '../chunks.ts';
import type { Partition } from './partition.ts';
import { replies } from './replies.ts';

/** Maximum commands of a pipeline; 500 take this process about 1 ms. */
const COMMANDS_PER_PIPELINE = 500;

/**
 * Returns the number of delayed events of each topic that has any. Leaves out a topic if the key of its delayed events
 * has the wrong type, because another program has written it (`Partition.skip`). Throws StorageUnavailable if Redis is
 * away.
 */
export function delayedCounts(partition: Partition): Promise<Map<string, number>> {
  const { skip } = partition;
  return partition.command(async (redis, keys) => {
    const topics = (await redis.zrange(keys.delayed_topics(), '0', '-1').catch(skip)) ?? [];
    const counts = new Map<string, number>();
    for (const slice of slicesOf(topics, COMMANDS_PER_PIPELINE)) {
      const cards = redis.pipeline(slice.map((topic) => ['zcard', keys.delayed_due(topic)]));
      const found = await replies(cards, skip);
      for (const [index, topic] of slice.entries())
        if (found[index] !== undefined) counts.set(topic, Number(found[index]));
    }
    return counts;
  });
}

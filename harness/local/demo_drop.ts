import { once } from 'node:events';
import { createLog } from '../../src/log.ts';
import { connectOne } from '../../src/store/connection.ts';
import { Partitions } from '../../src/store/partitions.ts';

/** As much of the delivery log as the bus keeps by default. */
const DELIVERY_LOG = 100_000;

/**
 * Drops the oldest batch of a subscriber by the script that does so when memory runs short: the demo's Redis has memory
 * enough. Returns the number of dropped batches.
 */
export async function dropOldest(redisUrl: string, token: string): Promise<number> {
  const redis = connectOne(redisUrl, createLog('silent', {}));
  try {
    if (redis.status !== 'ready') await once(redis, 'ready');
    const { cuts } = await Partitions.on(redis, {})
      .ofSubscriber(token)
      .run('autodrop', { begunTopics: [], deliveryLog: DELIVERY_LOG, cuts: [{ token, maxDeleted: 1 }] });
    return cuts[0]?.deleted ?? 0;
  } finally {
    redis.disconnect();
  }
}

import { once } from 'node:events';
import { createLog } from '../../src/log.ts';
import { connectOne } from '../../src/store/connection.ts';
import { Partitions } from '../../src/store/partitions.ts';

/** Maximum records of the delivery log: the default of the bus. */
const DELIVERY_LOG = 100_000;

/**
 * Drops the oldest batch of a subscriber. Calls the script autodrop directly, because the demo's Redis never runs short
 * of memory. Returns the number of dropped batches.
 */
export async function dropOldest(redisUrl: string, token: string): Promise<number> {
  const redis = connectOne(redisUrl, createLog('silent', {}));
  try {
    if (redis.status !== 'ready') await once(redis, 'ready');
    const { orders } = await Partitions.on(redis, {})
      .ofSubscriber(token)
      .run('autodrop', { begunTopics: [], deliveryLog: DELIVERY_LOG, orders: [{ token, maxDeleted: 1 }] });
    return orders[0]?.deleted ?? 0;
  } finally {
    redis.disconnect();
  }
}

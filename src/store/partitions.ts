import type { Redis } from 'ioredis';
import type { Log } from '../log.ts';
import { Partition } from './partition.ts';

/**
 * Tells which partition a model works on. There is one today, so all three are the same; nothing outside
 * `store/` may assume that.
 */
export class Partitions {
  /** Clients, nonces, limits and figures. */
  readonly control: Partition;

  constructor(redis: Redis, options: { prefix?: string; log?: Log } = {}) {
    this.control = new Partition(redis, options);
  }

  /** The partition that has a subscriber, with its queue and its dead letters. */
  ofSubscriber(_token: string): Partition {
    return this.control;
  }

  /** The home of a topic: its owner, its counter and its idempotency keys. */
  ofTopic(_name: string): Partition {
    return this.control;
  }
}

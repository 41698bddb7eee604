import { once } from 'node:events';
import { createLog } from '../../src/log.ts';
import { connectOne } from '../../src/store/connection.ts';
import { Partition } from '../../src/store/partition.ts';
import { aroundTests } from '../around_tests.ts';
import { PrivateRedis } from './private_redis.ts';

/** Prefix of the bus's keys in tests; ROUTEMASTER_REDIS_PREFIX runs any file of test/acceptance/ with one. */
export const REDIS_PREFIX = process.env.ROUTEMASTER_REDIS_PREFIX ?? '';

/** Number of partitions of a bus under test. test/acceptance/partitions.test.ts runs some files again with several. */
export const PARTITIONS = Number(process.env.ROUTEMASTER_PARTITIONS ?? 1);

/** True if buses under test run on a cluster, as `npm run acceptance-cluster` asks for. */
export const ON_CLUSTER = process.env.TESTS_ON_CLUSTER === 'true';

/** A private Redis, started before the tests of a file and stopped after them. `flush` empties it. */
export class TestStore {
  #redis: PrivateRedis | undefined;
  #store: Partition | undefined;

  constructor(config: Record<string, string> = {}) {
    const begin = async () => {
      this.#redis = await PrivateRedis.start({ config });
      this.#store = await openStore(this.#redis.url);
    };
    aroundTests(begin, async () => {
      this.#store?.redis.disconnect();
      await this.#redis?.stop();
    });
  }

  get redis(): PrivateRedis {
    if (!this.#redis) throw new Error('the tests have not begun');
    return this.#redis;
  }

  get store(): Partition {
    if (!this.#store) throw new Error('the tests have not begun');
    return this.#store;
  }

  async flush(): Promise<void> {
    await this.store.redis.flushall();
  }
}

/** Resolves with a connected partition. */
export async function openStore(url: string, prefix = REDIS_PREFIX): Promise<Partition> {
  const redis = connectOne(url, createLog('silent', {}));
  if (redis.status !== 'ready') await once(redis, 'ready');
  return new Partition(redis, { prefix });
}

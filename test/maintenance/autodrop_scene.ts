import { beforeEach } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import type { Config } from '../../src/config.ts';
import { Autodrop } from '../../src/maintenance/autodrop.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { infoNumber, readMemory } from '../../src/store/memory.ts';
import { Partitions } from '../../src/store/partitions.ts';

export const MB = 1024 * 1024;
/** The high mark is at 14 MB, the low mark at 13 MB. */
export const SETTINGS = { redisMaxBytes: 15 * MB, redisMinFreeBytes: MB };
export const TOKEN_ONLY = 'legacy--0123456789abcdef';

/** What a file with tests of autodrop needs: a Redis with two subscribers, and the job. */
export function autodropScene() {
  const redis = new TestStore();
  const bus = new Bus(() => redis.store);

  const memory = () => readMemory(redis.store, SETTINGS);

  /** Redis sums up the buffers of its clients once a second. Until then the memory of the data is only known roughly. */
  const buffersAreSummedUp = async () => (await bufferBytes()) < MB;
  const bufferBytes = async () => infoNumber(await redis.store.redis.info('memory'), 'mem_clients_normal');

  /** Publishes batches of 50 and 100 kB until Redis uses more memory than the high mark, also without buffers. */
  async function fill(): Promise<void> {
    for (let i = 0; (await memory()).used <= 15.2 * MB; i++)
      await bus.publish(nthWord(i), 'widgets', Array(50).fill('x'.repeat(1000)));
  }

  async function run(
    signal = new AbortController().signal,
    times = 1,
    partition = redis.store,
    dropPolicy: Config['dropPolicy'] = 'oldest',
    partitions = new Partitions(partition),
    limits = SETTINGS,
  ) {
    await until(buffersAreSummedUp);
    const { log, lines } = capturedLog();
    const counted: Record<string, number> = {};
    const removed: Record<string, number> = {};
    const increment = (name: string, { queue = '' }: Record<string, string>, by = 1) => {
      const counts = name === 'events.autodropped' ? counted : removed;
      counts[queue] = (counts[queue] ?? 0) + by;
    };
    const publicNames = new PublicNames(new Clients(redis.store, []), new NameKey(redis.store));
    const job = new Autodrop(
      { partition, partitions, publicNames, recorder: new Recorder({ increment }), log },
      { ...limits, dropPolicy, deliveryLog: 1000 },
    );
    for (let i = 0; i < times; i++) await job.run(signal);
    return { lines, counted, removed };
  }

  beforeEach(async () => {
    await redis.flush();
    // Waits until the memory of the test before is freed, and Redis has noticed that its buffers are.
    await until(async () => (await bufferBytes()) < MB / 4 && (await memory()).used < 3 * MB);
    await new Clients(redis.store, []).register('legacy', TOKEN_ONLY);
    await bus.subscribe('alice', { max: 50 });
    await bus.subscribe(TOKEN_ONLY, { max: 100 });
  });

  return { redis, bus, memory, fill, run };
}

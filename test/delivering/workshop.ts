import { capturedLog } from '../../harness/captured_log.ts';
import { until } from '../../harness/until.ts';
import type { Grant } from '../../src/delivering/grant.ts';
import { Queue } from '../../src/delivering/queue.ts';
import type { JobHandler } from '../../src/delivering/settlement.ts';
import { Workers } from '../../src/delivering/workers.ts';
import { uids } from '../../src/ids.ts';
import type { QueueName } from '../../src/store/job.ts';
import { Listener } from '../../src/store/listener.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Wakeups } from '../../src/store/wakeups.ts';

interface WorkshopOptions {
  queue?: QueueName;
  count?: number;
  /** Long by default, so that workers find jobs by announcements and not by a tick. */
  tickMs?: number;
}

/** Workers on a real Redis, with the test's own handler; `close` stops them. */
export class Workshop {
  readonly recorded = capturedLog();
  readonly grants: Grant[] = [];
  readonly removed: [token: string, events: number][] = [];
  readonly buried: [token: string, reason: string, events: number][] = [];
  readonly workers: Workers;
  readonly #wakeups: Wakeups;

  /** Starts the workers, and waits until they hear announcements. */
  static async open(store: Partition, handler: JobHandler, options: WorkshopOptions = {}): Promise<Workshop> {
    const shop = new Workshop(store, handler, options);
    shop.workers.start();
    await until(async () => Number((await store.redis.pubsub('NUMSUB', 'wake:due'))[1]) > 0);
    return shop;
  }

  private constructor(store: Partition, handler: JobHandler, options: WorkshopOptions) {
    const { log } = this.recorded;
    const { queue = 'main', count = 2, tickMs = 60_000 } = options;
    this.#wakeups = new Wakeups(new Listener(store.redis), store.keys);
    const recording: JobHandler = (grant, signal) => {
      this.grants.push(grant);
      return handler(grant, signal);
    };
    const parts = {
      queue: new Queue(store, queue, {
        laneLimit: 10,
        laneLimitMax: 100,
        leaseMs: 30_000,
        deliveryLog: 1000,
      }),
      handler: recording,
      recorder: {
        removed: (token: string, events: number) => void this.removed.push([token, events]),
        buried: (token: string, reason: string, events: number) =>
          void this.buried.push([token, reason, events]),
      },
      log,
    };
    this.workers = new Workers(parts, { ids: uids(count), tickMs });
    this.#wakeups.on(queue, () => this.workers.wake());
  }

  async close(graceMs = 0): Promise<void> {
    await this.workers.stop(graceMs);
    this.#wakeups.close();
  }
}

import assert from 'node:assert/strict';
import { afterEach, beforeEach } from 'node:test';
import { capturedLog } from '../../../harness/captured_log.ts';
import { publishingParts } from '../../../harness/publishing.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { PUBLISH_LIMITS } from '../../../harness/scripts/bus_inputs.ts';
import { beginBus, nameIn } from '../../../harness/scripts/crossing.ts';
import { DEFAULTS, subscribersIn } from '../../../harness/subscriptions.ts';
import { Queue } from '../../../src/delivering/queue.ts';
import { outboxJob } from '../../../src/maintenance/outbox_job.ts';
import { promoteDue } from '../../../src/maintenance/promoting.ts';
import { Outbox, type OutboxParts } from '../../../src/publishing/outbox.ts';
import { Publisher } from '../../../src/publishing/publisher.ts';
import type { ScriptName } from '../../../src/store/contracts.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';
import { Subscriptions } from '../../../src/subscribing/subscription.ts';
import { Topics } from '../../../src/subscribing/topic.ts';
import { TopicMarks } from '../../../src/subscribing/topic_marks.ts';

export const redis = new TestStore();
export const LEASE_MS = 30_000;
export const SETTINGS = { laneLimit: 10, laneLimitMax: 100, leaseMs: LEASE_MS, deliveryLog: 0 };

class Bus {
  readonly partitions = Partitions.on(redis.store.redis, { partitions: 4 });
  readonly added: Record<string, number> = {};
  readonly logged = capturedLog();
  readonly #recorder = {
    published: () => {},
    added: (token: string, events: number) => {
      this.added[token] = (this.added[token] ?? 0) + events;
    },
  };
  readonly outbox = new Outbox({
    confirmed: this.partitions,
    recorder: this.#recorder,
    marks: new TopicMarks(this.partitions),
    limits: PUBLISH_LIMITS,
    log: this.logged.log,
  });
  readonly publisher = new Publisher(
    publishingParts(this.partitions, {
      recorder: this.#recorder,
      limits: { ...PUBLISH_LIMITS, maxOutboxBytes: 20_000 },
    }),
  );
  readonly topics = new Topics(this.partitions, this.outbox);
  readonly subscribers = subscribersIn(this.partitions, this.outbox);
  readonly subscriptions = new Subscriptions(this.partitions, DEFAULTS, this.outbox);
  /** A topic that lives in the first partition. */
  readonly topic = nameIn(this.partitions, 0, 'widgets');

  subscribe(token: string, ...topics: string[]) {
    return this.subscriptions.subscribe(token, { topics, callback: `https://${token}.example/`, uuid: 'u' });
  }

  publish(...events: string[]) {
    return this.publisher.publish({ topic: this.topic, client: 'shop', events });
  }

  token(index: number, stem = 'alice'): string {
    return nameIn(this.partitions, index, stem);
  }

  /** Runs the jobs of all outboxes until none is left; also those that are not due yet. */
  async runJobs(outbox = this.outbox): Promise<void> {
    for (const partition of this.partitions.all) {
      const { redis, keys } = partition;
      for (const job of await redis.zrangeBuffer(keys.jobs_scheduled('aux'), '0', '-1'))
        await redis.zadd(keys.jobs_scheduled('aux'), 0, job);
      await promoteDue(partition);
      const queue = new Queue(partition, 'aux', SETTINGS);
      const run = outboxJob({
        partition,
        partitions: this.partitions,
        outbox,
        leaseMs: LEASE_MS,
        log: capturedLog().log,
        onFull: () => {},
      });
      for (;;) {
        const [grant] = (await queue.acquire(['w'])).grants;
        if (!grant) break;
        assert.deepEqual(await run(grant, new AbortController().signal), { end: 'settled', held: true });
      }
    }
  }

  /** Returns the events that wait for a subscriber, in order. */
  async queued(token: string): Promise<string[]> {
    const { redis, keys } = this.partitions.ofSubscriber(token);
    const bids = await redis.zrange(keys.batches_queued(token), '0', '-1');
    const batches = await Promise.all(bids.map((bid) => redis.lrange(keys.batch(bid), 3, -1)));
    return batches.flat();
  }

  homeOfTopic(): Partition {
    return this.partitions.ofTopic(this.topic);
  }

  /** Returns the entries of the topic's home: all of its outbox, or those set aside for a partition. */
  entries(aside?: number): Promise<string[]> {
    const { redis, keys } = this.homeOfTopic();
    return redis.lrange(aside === undefined ? keys.outbox() : keys.outbox_aside(String(aside)), 0, -1);
  }
}

/** Returns an outbox for which the second partition answers as `run` does. */
export function outboxWith(run: () => Promise<never>): Outbox {
  const [home, second, ...others] = bus.partitions.all as [Partition, Partition, Partition, Partition];
  const confirmed = new Partitions(home, Object.create(second, { run: { value: run } }), ...others);
  return outboxOf({ confirmed, marks: { refresh: async () => {} } });
}

export function outboxOf(parts: Pick<OutboxParts, 'confirmed' | 'marks'>): Outbox {
  const recorder = { published: () => {}, added: () => {} };
  return new Outbox({ ...parts, recorder, limits: PUBLISH_LIMITS, log: capturedLog().log });
}

/**
 * Returns the partition, which calls `first` before it runs the script `name` for the first time. A `read_outbox` of
 * entries that are set aside (with `partition`) does not count.
 */
export function beforeScript(partition: Partition, name: ScriptName, first: () => Promise<void>): Partition {
  let isFirst = true;
  const run: Partition['run'] = async (script, args) => {
    const { partition: aside } = args as { partition?: string };
    if (script === name && isFirst && aside === undefined) {
      isFirst = false;
      await first();
    }
    return partition.run(script, args);
  };
  return Object.create(partition, { run: { value: run } });
}

/** A bus with four partitions. Each test gets a new one, and an empty Redis. */
export let bus: Bus;
beforeEach(async () => {
  await redis.flush();
  bus = new Bus();
  await beginBus(bus.partitions);
});

afterEach(async () => {
  const strays = await redis.store.redis.keys('[^{]*');
  assert.deepEqual(strays, [], 'every key has the tag of its partition');
});

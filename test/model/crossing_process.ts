import { publishingParts } from '../../harness/publishing.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { DEFAULTS, subscribersIn } from '../../harness/subscriptions.ts';
import { Joins } from '../../src/flow/joins/joins.ts';
import type { Log } from '../../src/log.ts';
import { promoteDue } from '../../src/maintenance/promoting.ts';
import { Outbox } from '../../src/publishing/outbox.ts';
import { Publisher } from '../../src/publishing/publisher.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { Partitions } from '../../src/store/partitions.ts';
import type { Subscribers } from '../../src/subscribing/subscriber.ts';
import { Subscriptions } from '../../src/subscribing/subscription.ts';
import { Topics } from '../../src/subscribing/topic.ts';
import { TopicMarks } from '../../src/subscribing/topic_marks.ts';
import type { Gate } from './gate.ts';

const JOIN_LIMITS = { maxJoins: 10, maxClientJoins: 10, maxJoinKeys: 10, maxJoinBytes: 1_000_000 };
const recorder = { published: () => {}, added: () => {} };

/** A process of the bus with ROUTEMASTER_MIN_REPLICAS. A gate holds its calls to Redis. */
export class Process {
  readonly partitions: Partitions;
  readonly confirmed: Partitions;
  readonly marks: TopicMarks;
  readonly outbox: Outbox;
  readonly publisher: Publisher;
  readonly topics: Topics;
  readonly subscribers: Subscribers;
  readonly subscriptions: Subscriptions;
  readonly joins: Joins;
  readonly maxOutboxBytes: number;

  constructor(all: Partitions, gate: Gate, maxOutboxBytes: number, log: Log) {
    const partitions = gate.behind(all);
    const confirmed = gate.behind(all, { isConfirmed: true });
    this.partitions = partitions;
    this.confirmed = confirmed;
    this.maxOutboxBytes = maxOutboxBytes;
    this.marks = new TopicMarks(partitions);
    this.outbox = new Outbox({ confirmed, recorder, marks: this.marks, limits: PUBLISH_LIMITS, log });
    const limits = { ...PUBLISH_LIMITS, maxOutboxBytes };
    this.publisher = new Publisher(publishingParts(confirmed, { limits }));
    this.topics = new Topics(partitions, this.outbox);
    this.joins = new Joins(partitions, { ...PUBLISH_LIMITS, ...JOIN_LIMITS });
    this.subscribers = subscribersIn(partitions, this.outbox);
    this.subscriptions = new Subscriptions(partitions, DEFAULTS, this.outbox);
  }
}

/** Makes the jobs of entries that are set aside due. */
export async function makeDue(partition: Partition): Promise<void> {
  const { redis, keys } = partition;
  for (const job of await redis.zrangeBuffer(keys.jobs_scheduled('aux'), '0', '-1'))
    await redis.zadd(keys.jobs_scheduled('aux'), 0, job);
  await promoteDue(partition);
}

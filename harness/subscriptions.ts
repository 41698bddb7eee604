import { DeadLetters } from '../src/delivering/dead_letters/dead_letters.ts';
import type { Recorder } from '../src/metrics/recorder.ts';
import type { Partition } from '../src/store/partition.ts';
import { Partitions } from '../src/store/partitions.ts';
import { Subscribers } from '../src/subscribing/subscriber.ts';
import { Subscriptions } from '../src/subscribing/subscription.ts';
import type { Flushing } from '../src/subscribing/topic_marks.ts';

/** The limits and defaults of subscriptions. */
export const DEFAULTS = {
  ...{ laneLimit: 16, laneLimitMax: 64, maxAttempts: 1500, maxAgeMs: 86_400_000 },
  ...{ maxTopics: 10_000, maxSubscribers: 10_000, deliveryLog: 1000 },
};

/** Stands for the outbox in tests of one partition, which never flush it. */
export const NO_OUTBOX: Flushing = {
  flush() {
    throw new Error('an outbox is flushed that the test does not have');
  },
};

const NO_RECORDER: Pick<Recorder, 'removed'> = { removed() {} };

export function subscriptionsOf(store: Partition): Subscriptions {
  return new Subscriptions(new Partitions(store), DEFAULTS, NO_OUTBOX);
}

export function subscribersIn(all: Partitions, outbox = NO_OUTBOX, recorder = NO_RECORDER): Subscribers {
  const deadLetters = new DeadLetters(all, DEFAULTS, () => {});
  return new Subscribers(all, DEFAULTS, { outbox, deadLetters, recorder });
}

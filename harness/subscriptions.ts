import { DeadLetters } from '../src/delivering/dead_letters.ts';
import type { Store } from '../src/store/store.ts';
import { Subscriptions } from '../src/subscribing/subscription.ts';

/** The limits and defaults of subscriptions. */
export const DEFAULTS = {
  ...{ laneLimit: 16, laneLimitMax: 64, maxAttempts: 1500, maxAgeMs: 86_400_000 },
  ...{ maxTopics: 10_000, maxSubscribers: 10_000 },
};

export function subscriptionsOf(store: Store): Subscriptions {
  return new Subscriptions(store, DEFAULTS, new DeadLetters(store, () => {}));
}

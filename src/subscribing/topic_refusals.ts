import { BusError } from '../errors.ts';
import type { Arguments, Reply } from '../store/contracts.ts';

type Outcome = Reply<'delay'>['outcomes'][number]['outcome'];

export type DelayedLimits = Pick<Arguments<'delay'>, 'maxClientDelayed' | 'maxClientBytes'>;

const ADVICE = 'wait until some are published, delete some, or have';

/**
 * Returns the error for a publication that was refused because of its topic. Returns undefined for any other outcome.
 */
export function topicRefusal(outcome: Outcome, topic: string): BusError | undefined {
  if (outcome === 'outbox_full')
    return new BusError(
      'storage_unavailable',
      `a partition of the bus with subscribers of ${topic} is away or full, and as much waits for it as may; nothing was stored. Try again in a while`,
      { headers: { 'Retry-After': '5' } },
    );
  if (outcome === 'no_room')
    return new BusError(
      'limit_reached',
      `the bus has no room for more topics, and none is called ${topic}; delete some, or have ROUTEMASTER_MAX_TOPICS raised`,
    );
  if (outcome === 'owns_too_many')
    return new BusError(
      'limit_reached',
      'this client owns as many topics as it may; delete some, or have ROUTEMASTER_MAX_CLIENT_TOPICS raised',
    );
  if (outcome === 'claimed_by_other') return new BusError('topic_claimed', claimedByOther(topic));
  return undefined;
}

export function claimedByOther(topic: string): string {
  return (
    `another client publishes to ${topic}; choose another topic, have root give you ${topic}, ` +
    'or have that client delete it with its subscriptions'
  );
}

/** Returns the error if a client would have too many delayed events, or too many bytes of them; otherwise undefined. */
export function delayedRefusal(
  outcome: Outcome,
  { maxClientDelayed, maxClientBytes }: DelayedLimits,
): BusError | undefined {
  if (outcome === 'too_many_delayed')
    return new BusError(
      'limit_reached',
      `this client may have ${maxClientDelayed} delayed events; ${ADVICE} ROUTEMASTER_MAX_CLIENT_DELAYED raised`,
    );
  if (outcome === 'too_much_delayed')
    return new BusError(
      'limit_reached',
      `the delayed events of this client may take ${maxClientBytes} bytes of Redis; ${ADVICE} ROUTEMASTER_CLIENT_DELAYED_SHARE or the memory of Redis raised`,
    );
  return undefined;
}

import { BusError } from '../errors.ts';
import type { PublishLimits, TimedOutcome } from './publication.ts';

/** The limits whose values error messages state. */
export interface RefusalLimits extends Pick<PublishLimits, 'idempotencyWindowMs' | 'maxClientKeys'> {
  maxClientDelayed: number;
  maxClientBytes: number;
}

const ADVICE = 'wait until some are published, delete some, or have';

/**
 * Returns the error for a refused publication. Returns undefined if the publication was accepted, by this call or by an
 * earlier one (`repeated`).
 */
export function refusal(
  { outcome, index = 0 }: TimedOutcome,
  topic: string,
  { idempotencyWindowMs, maxClientKeys, maxClientDelayed, maxClientBytes }: RefusalLimits,
): BusError | undefined {
  switch (outcome) {
    case 'too_many_keys': {
      const seconds = Math.ceil(idempotencyWindowMs / maxClientKeys / 1000);
      return new BusError(
        'too_many_keys',
        `this client used more Idempotency-Keys than it may; nothing was stored. Try again in ${seconds} s, and publish more events at a time`,
        { headers: { 'Retry-After': String(seconds) } },
      );
    }
    case 'key_reused':
      return new BusError(
        'idempotency_key_reused',
        'something else was published under this Idempotency-Key a while ago; send a key again only with the same topic and body',
      );
    case 'too_far':
      return new BusError('bad_event', `event ${index}: at is more than a year ahead`, {
        members: { index, field: 'at' },
      });
    case 'already_delayed':
      return new BusError(
        'already_delayed',
        `event ${index}: an event with its id waits in ${topic} already, or stands before it; nothing was stored`,
        { members: { index, field: 'id' } },
      );
    case 'too_many_delayed':
      return new BusError(
        'limit_reached',
        `this client may have ${maxClientDelayed} delayed events; ${ADVICE} ROUTEMASTER_MAX_CLIENT_DELAYED raised`,
      );
    case 'too_much_delayed':
      return new BusError(
        'limit_reached',
        `the delayed events of this client may take ${maxClientBytes} bytes of Redis; ${ADVICE} ROUTEMASTER_CLIENT_DELAYED_SHARE or the memory of Redis raised`,
      );
    default:
      return topicRefusal(outcome, topic);
  }
}

/**
 * Returns the error for a publication that was refused because of its topic. Returns undefined for any other outcome.
 */
export function topicRefusal(outcome: TimedOutcome['outcome'], topic: string): BusError | undefined {
  if (outcome === 'outbox_full')
    return new BusError(
      'storage_unavailable',
      `a partition of the bus with subscribers of ${topic} is away, and as much waits for it as may; nothing was stored. Try again in a while`,
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

import { BusError } from '../errors.ts';
import { type DelayedLimits, delayedRefusal, topicRefusal } from '../subscribing/topic_refusals.ts';
import type { PublishLimits, TimedOutcome } from './publication.ts';

export type RefusalLimits = Pick<PublishLimits, 'idempotencyWindowMs' | 'maxClientKeys'> & DelayedLimits;

/**
 * Returns the error for a refused publication. Returns undefined if the publication was accepted, by this call or by an
 * earlier one (`repeated`).
 */
export function refusal(
  { outcome, index = 0 }: TimedOutcome,
  topic: string,
  limits: RefusalLimits,
): BusError | undefined {
  switch (outcome) {
    case 'too_many_keys': {
      const { idempotencyWindowMs, maxClientKeys } = limits;
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
    default:
      return topicRefusal(outcome, topic) ?? delayedRefusal(outcome, limits);
  }
}

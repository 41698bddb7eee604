import { BusError } from '../errors.ts';
import type { PublishLimits, TimedOutcome } from './publication.ts';
import { topicRefusal } from './topic_refusal.ts';

export interface RefusalLimits extends Pick<PublishLimits, 'idempotencyWindowMs' | 'maxClientKeys'> {
  maxClientDelayed: number;
  maxClientBytes: number;
}

/** Throws the error for a refused publication. Does nothing if it was accepted, now or before (`repeated`). */
export function refuseUnlessStored(
  { outcome, index }: TimedOutcome,
  topic: string,
  limits: RefusalLimits,
): void {
  const refusal = topicRefusal(outcome, topic);
  if (refusal) throw refusal;
  if (outcome === 'too_many_keys') throw tooManyKeys(limits);
  if (outcome === 'key_reused')
    throw new BusError(
      'idempotency_key_reused',
      'something else was published under this Idempotency-Key a while ago; send a key again only with the same topic and body',
    );
  refuseDelay({ outcome, index }, topic);
  const full = delayedRefusal(outcome, limits);
  if (full) throw full;
}

function tooManyKeys({ idempotencyWindowMs, maxClientKeys }: RefusalLimits): BusError {
  const seconds = Math.ceil(idempotencyWindowMs / maxClientKeys / 1000);
  return new BusError(
    'too_many_keys',
    `this client used more Idempotency-Keys than it may; nothing was stored. Try again in ${seconds} s, and publish more events at a time`,
    { headers: { 'Retry-After': String(seconds) } },
  );
}

function refuseDelay({ outcome, index = 0 }: TimedOutcome, topic: string): void {
  if (outcome === 'too_far')
    throw new BusError('bad_event', `event ${index}: at is more than a year ahead`, {
      members: { index, field: 'at' },
    });
  if (outcome === 'already_delayed')
    throw new BusError(
      'already_delayed',
      `event ${index}: an event with its id waits in ${topic} already, or stands before it; nothing was stored`,
      { members: { index, field: 'id' } },
    );
}

/** Returns the error if a client would have more delayed events than it may, and undefined for other outcomes. */
export function delayedRefusal(
  outcome: TimedOutcome['outcome'],
  limits: Pick<RefusalLimits, 'maxClientDelayed' | 'maxClientBytes'>,
): BusError | undefined {
  const advice = 'wait until some are published, delete some, or';
  if (outcome === 'too_many_delayed')
    return new BusError(
      'limit_reached',
      `this client may have ${limits.maxClientDelayed} delayed events; ${advice} have ROUTEMASTER_MAX_CLIENT_DELAYED raised`,
    );
  if (outcome === 'too_much_delayed')
    return new BusError(
      'limit_reached',
      `the delayed events of this client may take ${limits.maxClientBytes} bytes of Redis; ${advice} have ROUTEMASTER_CLIENT_DELAYED_SHARE or the memory of Redis raised`,
    );
  return undefined;
}

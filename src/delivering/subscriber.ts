/** The health of a subscriber whose hash has none. */
const PERFECT_HEALTH = 100;

/** A subscriber, as deliveries need it. */
export interface Subscriber {
  callback: string;
  /** The user name of deliveries; may be empty. */
  uuid: string;
  /** The keys that sign its deliveries, if any does: as Redis has them. */
  signing?: string;
  /** When it subscribed last, µs by Redis's clock: changes with each subscription. 0 if that is not known. */
  subscribedAt: string;
  /** 0 to 100. */
  healthPoints: number;
  /** After so many attempts a batch is a dead letter, if the subscriber has its own limit. */
  maxAttempts?: number;
  /** After so long it is, in ms. */
  maxAgeMs?: number;
}

/** Fields of its hash, as `acquire` tells of them; false: it does not have that field. */
export type SubscriberFields = [
  callback: string | false,
  uuid: string | false,
  subscribedAt: string | false,
  healthPoints: string | false,
  maxAttempts: string | false,
  maxAge: string | false,
  signing: string | false,
];

export function readSubscriber(fields: SubscriberFields): Subscriber {
  const [callback, uuid, subscribedAt, healthPoints, maxAttempts, maxAge, signing] = fields;
  return {
    callback: callback || '',
    uuid: uuid || '',
    subscribedAt: subscribedAt || '0',
    healthPoints: Number(healthPoints || PERFECT_HEALTH),
    ...(maxAttempts && { maxAttempts: Number(maxAttempts) }),
    ...(maxAge && { maxAgeMs: Number(maxAge) }),
    ...(signing && { signing }),
  };
}

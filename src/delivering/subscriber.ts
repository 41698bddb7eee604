import { PERFECT_HEALTH } from '../subscription_defaults.ts';

/** What a delivery needs to know of its subscriber. */
export interface Subscriber {
  callback: string;
  /** The user name of deliveries; may be empty. */
  uuid: string;
  /** The keys that sign its deliveries, as Redis holds them. */
  signing?: string;
  /** When it last subscribed, µs by Redis's clock; '0' if unknown. It identifies the subscription that a 410 pauses. */
  subscribedAt: string;
  /** 0 to 100. */
  healthPoints: number;
  /** Its own limits, after which a batch becomes a dead letter. */
  maxAttempts?: number;
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

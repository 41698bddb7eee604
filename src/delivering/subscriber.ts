import { PERFECT_HEALTH } from '../subscription_defaults.ts';
import type { ReplyReader } from './reply_reader.ts';

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

/** Reads the fields of its hash as the script `acquire` returns them; a missing field is nil. */
export function readSubscriber(reader: ReplyReader): Subscriber {
  reader.arrayLength();
  const next = () => (reader.nothing() ? undefined : reader.string());
  const [callback = '', uuid = '', subscribedAt = '0', healthPoints = PERFECT_HEALTH] = [
    next(),
    next(),
    next(),
    next(),
  ];
  const [maxAttempts, maxAge, signing] = [next(), next(), next()];
  return {
    callback,
    uuid,
    subscribedAt,
    healthPoints: Number(healthPoints),
    ...(maxAttempts && { maxAttempts: Number(maxAttempts) }),
    ...(maxAge && { maxAgeMs: Number(maxAge) }),
    ...(signing && { signing }),
  };
}

import { PERFECT_HEALTH } from '../subscription_defaults.ts';
import type { ReplyReader } from './reply_reader.ts';

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

/** As `acquire` tells of it: these fields of its hash; nothing for those that it does not have. */
export function readSubscriber(told: ReplyReader): Subscriber {
  told.arrayLength();
  const next = () => (told.nothing() ? undefined : told.string());
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

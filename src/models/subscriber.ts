/** What a subscriber is when its hash does not say. */
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

/** A subscriber as `acquire` tells of it: these fields of its hash. */
type Told = [
  callback: Buffer,
  uuid: Buffer | null,
  subscribedAt: Buffer | null,
  healthPoints: Buffer | null,
  maxAttempts: Buffer | null,
  maxAge: Buffer | null,
  signing: Buffer | null,
];

export function readSubscriber(told: readonly (Buffer | null)[]): Subscriber {
  const [callback, uuid, subscribedAt, healthPoints, maxAttempts, maxAge, signing] = told as Told;
  return {
    callback: String(callback),
    uuid: String(uuid ?? ''),
    subscribedAt: String(subscribedAt ?? '0'),
    healthPoints: Number(healthPoints ?? PERFECT_HEALTH),
    ...(maxAttempts && { maxAttempts: Number(maxAttempts) }),
    ...(maxAge && { maxAgeMs: Number(maxAge) }),
    ...(signing && { signing: String(signing) }),
  };
}

/** A hash as a script hands it out: field, value, … */
export function fieldsOf(flat: readonly (Buffer | number)[]): Record<string, string> {
  const hash: Record<string, string> = {};
  for (let i = 0; i < flat.length; i += 2) hash[String(flat[i])] = String(flat[i + 1]);
  return hash;
}

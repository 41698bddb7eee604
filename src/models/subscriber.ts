/** What a subscriber is when its hash does not say. */
const PERFECT_HEALTH = 100;

/** A subscriber, as deliveries need it. */
export interface Subscriber {
  callback: string;
  /** The user name of deliveries; may be empty. */
  uuid: string;
  /** 0 to 100. */
  healthPoints: number;
}

/** Reads a subscriber's hash as field, value, …; undefined where there is none: it has unsubscribed. */
export function readSubscriber(fields: readonly Buffer[]): Subscriber | undefined {
  const hash: Record<string, string> = {};
  for (let i = 0; i < fields.length; i += 2) hash[String(fields[i])] = String(fields[i + 1]);
  if (hash.callback === undefined) return undefined;
  return {
    callback: hash.callback,
    uuid: hash.uuid ?? '',
    healthPoints: Number(hash.health_points ?? PERFECT_HEALTH),
  };
}

import type { Arguments } from '../../src/store/contracts.ts';

/** The settings of a subscriber that `Bus.subscribe` makes. */
export interface Wanted {
  topics?: string[];
  timeout?: number | '';
  max?: number | '';
  maxBytes?: number;
  ordered?: 0 | 1 | '';
  inFlight?: number | '';
  laneLimit?: number;
  signingKey?: string;
  /** True if the subscriber has accepted batches before, so that it is not new. The default. */
  proven?: boolean;
}

/**
 * A publication. If it has an idempotency key, `digest` is the digest of the key, and `fingerprint` is the digest of
 * the topic and the body.
 */
export type Published = [
  topic: string,
  client: string,
  events: (string | Buffer)[],
  idempotency?: { digest: string; fingerprint: string } | undefined,
];

/** A delayed event: due at `at`, or after `delay` (ms), or, without both, at once. */
export interface Timed {
  id: string;
  at?: number;
  delay?: number;
  /** The text of the event. The default is its id. */
  text?: string;
  rest?: string;
}

/** The client of delayed events, its idempotency key, and its limits. */
export interface Delaying {
  client?: string;
  key?: { digest: string; fingerprint: string };
  limits?: Partial<typeof DELAY_LIMITS>;
}

/** The batch whose events a call of `autodrop` has begun to count. */
export type Begun = Omit<Arguments<'autodrop'>, 'orders' | 'deliveryLog'>;

/** A limit that no test reaches. */
export const ROOM = 10_000;

/** Limits of `publish` that no test reaches by accident. */
export const PUBLISH_LIMITS = {
  idempotencyWindowMs: 600_000,
  maxTopics: ROOM,
  maxClientTopics: ROOM,
  maxClientKeys: ROOM,
  maxOutboxBytes: 1_000_000,
};
/** Limits of `delay` that no test reaches by accident. */
export const DELAY_LIMITS = {
  ...PUBLISH_LIMITS,
  maxDelayMs: 31_536_000_000,
  maxClientDelayed: 100_000,
  maxClientBytes: 1_000_000_000,
};

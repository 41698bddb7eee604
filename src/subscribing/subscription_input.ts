import { z } from 'zod';
import type { Config } from '../config.ts';
import type { Dialect } from '../routing/dialect.ts';
import type { Input, Wording } from '../routing/route.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../routing/topic_name.ts';
import { isSecret } from './signing_keys.ts';
import type { Subscription } from './subscription.ts';

const MAX_TIMEOUT_MS = 3_600_000;
const MAX_MAX_EVENTS = 10_000;
const MIN_MAX_BYTES = 1024;
const MAX_MAX_BYTES = 16 * 1024 * 1024;
const MAX_MAX_ATTEMPTS = 1_000_000;
const MIN_AGE_MS = 1000;
const MAX_AGE_MS = 365 * 86_400_000;

/**
 * Matches the field `uuid`: the user name that deliveries carry in Basic authentication. It need not be a UUID, but
 * cannot contain a colon or control characters (RFC 7617).
 */
export const UUID = /^[^:\p{Cc}]{0,255}$/u;
const UUID_RULE = 'at most 255 characters, no colon and no control characters';

/**
 * The value of `signing_secret` with which a subscriber asks the bus for a new key pair. The subscriber gets the public
 * key.
 */
export const ED25519 = 'ed25519';

const topicRule = `a topic name has ${TOPIC_NAME_RULE}`;
const topicName = z.string(topicRule).regex(TOPIC_NAME, topicRule);
const wholeNumber = (min: number, max: number) =>
  z
    .int(`must be a whole number from ${min} to ${max}`)
    .min(min, `must be at least ${min}`)
    .max(max, `must be at most ${max}`);

const requestSchema = (
  { laneLimitMax, maxSubscriptionTopics }: SubscriptionLimits,
  { cutsMax }: Pick<Dialect, 'cutsMax'>,
) =>
  z.strictObject({
    topics: z
      .array(topicName, 'must be an array of topic names')
      .max(maxSubscriptionTopics, `must have at most ${maxSubscriptionTopics} names`)
      .describe('All topics to be subscribed to. `[]` unsubscribes from all, and keeps the queue.'),
    callback: z
      .string('must be a URL')
      .describe('https URL, at most 2048 characters, at a public address. A user in it becomes the `uuid`.'),
    uuid: z
      .string('must be a string')
      .regex(UUID, `must have ${UUID_RULE}`)
      .nullish()
      .describe('User name that deliveries carry; empty unless given.'),
    timeout: wholeNumber(0, MAX_TIMEOUT_MS)
      .nullish()
      .describe('How long a batch may wait for more events, in ms; at first 500.'),
    max: (cutsMax
      ? wholeNumber(1, Number.MAX_SAFE_INTEGER).transform((max) => Math.min(max, MAX_MAX_EVENTS))
      : wholeNumber(1, MAX_MAX_EVENTS)
    )
      .nullish()
      .describe('How many events make a batch full; at first 100.'),
    max_bytes: wholeNumber(MIN_MAX_BYTES, MAX_MAX_BYTES)
      .nullish()
      .describe('How many bytes the body of a delivery may have; unless set 1048576.'),
    ordered: z
      .boolean('must be true or false')
      .nullish()
      .describe('Whether batches come one at a time, in order; at first not.'),
    max_in_flight: wholeNumber(1, laneLimitMax)
      .nullish()
      .describe('How many deliveries may be under way; unless set `ROUTEMASTER_LANE_LIMIT`.'),
    max_attempts: wholeNumber(1, MAX_MAX_ATTEMPTS)
      .nullish()
      .describe('After how many attempts a batch is a dead letter; unless set `ROUTEMASTER_MAX_ATTEMPTS`.'),
    max_age: wholeNumber(MIN_AGE_MS, MAX_AGE_MS)
      .nullish()
      .describe('After how many ms a batch is a dead letter; unless set `ROUTEMASTER_MAX_AGE`.'),
    signing_secret: z
      .custom<boolean | string>(
        (value) =>
          typeof value === 'boolean' || value === ED25519 || (typeof value === 'string' && isSecret(value)),
        `must be true, "${ED25519}", false, or whsec_ and 24 to 64 bytes in Base64`,
      )
      .meta({ anyOf: [{ type: 'boolean' }, { const: ED25519 }, { type: 'string', pattern: '^whsec_' }] })
      .nullish()
      .describe('Signs deliveries: `true`, a `whsec_…` of your own, `"ed25519"`, or `false`; at first not.'),
  });

export type SubscriptionRequest = z.infer<ReturnType<typeof requestSchema>>;

export type SubscriptionLimits = Pick<Config, 'laneLimitMax' | 'maxSubscriptionTopics'>;

const wording = (fields: string[]): Wording => ({
  code: (field) => {
    if (/^topics\.\d+$/.test(field)) return 'bad_topic';
    return field === 'callback' ? 'bad_callback' : 'bad_subscription';
  },
  whole: 'send an object with topics, callback and uuid',
  field: (name, rule) => `${name}: ${rule}`,
  unknown: (name) => `unknown field ${JSON.stringify(name)}; use ${fields.join(', ')}`,
});

export function subscriptionInput(
  limits: SubscriptionLimits,
  dialect: Pick<Dialect, 'cutsMax'>,
): Input<SubscriptionRequest> {
  const schema = requestSchema(limits, dialect);
  return { schema, wording: wording(Object.keys(schema.shape)) };
}

/** Returns the settings of a request under their names in `Subscription`. */
export function wantedBy(body: SubscriptionRequest): Omit<Subscription, 'callback' | 'uuid'> {
  const { topics, timeout, max, max_bytes, ordered, max_in_flight, max_attempts, max_age } = body;
  return {
    topics,
    timeoutMs: timeout ?? undefined,
    maxEvents: max ?? undefined,
    maxBytes: max_bytes ?? undefined,
    ordered: ordered ?? undefined,
    maxInFlight: max_in_flight ?? undefined,
    maxAttempts: max_attempts ?? undefined,
    maxAgeMs: max_age ?? undefined,
  };
}

import { z } from 'zod';
import type { Config } from '../config.ts';
import type { Dialect } from '../routing/dialect.ts';
import type { Input, Wording } from '../routing/route.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../routing/topic_name.ts';
import { isSecret } from './signing_keys.ts';
import type { WantedSubscription } from './subscription.ts';
import { askedSettings, type SettingLimits, type SettingName } from './subscription_settings.ts';

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
const requestSchema = (limits: SubscriptionLimits, dialect: Pick<Dialect, 'cutsMax'>) => {
  const { maxSubscriptionTopics } = limits;
  const { timeout, max_events: max, ...others } = askedSettings(limits, dialect);
  return z.strictObject({
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
    timeout,
    max,
    ...others,
    signing_secret: z
      .custom<boolean | string>(
        (value) =>
          typeof value === 'boolean' || value === ED25519 || (typeof value === 'string' && isSecret(value)),
        `must be true, "${ED25519}", false, or whsec_ and 24 to 64 bytes in Base64 with +, / and padding`,
      )
      .meta({ anyOf: [{ type: 'boolean' }, { const: ED25519 }, { type: 'string', pattern: '^whsec_' }] })
      .nullish()
      .describe('Signs deliveries: `true`, a `whsec_…` of your own, `"ed25519"`, or `false`, the default.'),
  });
};

export type SubscriptionRequest = z.infer<ReturnType<typeof requestSchema>>;

export type SubscriptionLimits = SettingLimits & Pick<Config, 'maxSubscriptionTopics'>;

const wording = (fields: string[]): Wording => ({
  code: (field) => {
    if (/^topics\.\d+$/.test(field)) return 'bad_topic';
    return field === 'callback' ? 'bad_callback' : 'bad_subscription';
  },
  whole: 'send an object with topics, callback and uuid',
  field: (name, rule) => `${name}: ${rule}`,
  unknown: (name) => {
    // Users try `max_events`, because the bus's reports of a subscription use this name for the setting `max`.
    if (name === 'max_events') return 'unknown field "max_events"; in a subscription this is max';
    return `unknown field ${JSON.stringify(name)}; use ${fields.join(', ')}`;
  },
});

export function subscriptionInput(
  limits: SubscriptionLimits,
  dialect: Pick<Dialect, 'cutsMax'>,
): Input<SubscriptionRequest> {
  const schema = requestSchema(limits, dialect);
  return { schema, wording: wording(Object.keys(schema.shape)) };
}

/** Returns the name of a setting in a request. */
export function askedName(name: SettingName): string {
  return name === 'max_events' ? 'max' : name;
}

/** Returns the topics and the settings of a request, under their names in `WantedSubscription`. */
export function wantedBy(body: SubscriptionRequest): Omit<WantedSubscription, 'callback' | 'uuid'> {
  const { callback, uuid, signing_secret, max: max_events, ...wanted } = body;
  return { ...wanted, max_events };
}

import { z } from 'zod';
import { EVENT_TYPES } from '../../publishing/event.ts';
import type { Input } from '../../routing/route.ts';
import { oneOf, wholeNumber } from '../../routing/schemas.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../../routing/topic_name.ts';

const MAX_SOURCES = 16;
const MAX_COUNT = 1_000_000;
const MIN_WITHIN_MS = 100;
const MAX_WITHIN_MS = 365 * 86_400_000;
const DEFAULT_WITHIN_MS = 86_400_000;
const DEFAULT_TYPE = 'noop';

const MAX_PATH_LENGTH = 256;
const MEMBER_PATH = /^(?:url|data(?:\.[\w-]+){1,8})$/;
const PATH_RULE =
  'must be "url", or a path into data of up to 8 names of letters, digits, _ and -, such as "data.order_id"';

const topicRule = `must be a topic name, which has ${TOPIC_NAME_RULE}`;
const topic = z.string(topicRule).regex(TOPIC_NAME, topicRule);

const outlet = z.strictObject(
  { topic, type: oneOf(EVENT_TYPES).default(DEFAULT_TYPE) },
  'must be an object such as {"topic": "orders_ready", "type": "update"}',
);

const SOURCES_RULE = `must be an array of 1 to ${MAX_SOURCES} objects such as {"topic": "orders", "count": 1}`;
const source = z.strictObject(
  { topic, count: wholeNumber(1, MAX_COUNT).default(1) },
  'must be an object such as {"topic": "orders", "count": 1}',
);

const shape = z.strictObject({
  sources: z
    .array(source, SOURCES_RULE)
    .min(1, SOURCES_RULE)
    .max(MAX_SOURCES, SOURCES_RULE)
    .describe('Topics, each with the number of its events that a key needs.'),
  by: z
    .string(PATH_RULE)
    .max(MAX_PATH_LENGTH, PATH_RULE)
    .regex(MEMBER_PATH, PATH_RULE)
    .describe(
      'What the events of a key have in common: `url`, or a path into `data` such as `data.order.id`.',
    ),
  then: outlet.describe('What to publish when a key is complete.'),
  within: wholeNumber(MIN_WITHIN_MS, MAX_WITHIN_MS)
    .default(DEFAULT_WITHIN_MS)
    .describe('For how long a key may be incomplete, in ms.'),
  on_expiry: outlet
    .nullish()
    .transform((each) => each ?? null)
    .describe('What to publish when a key expires; nothing unless given.'),
});

/** The rules of a join as they are stored and shown. */
export const JOIN_RULES = z.object({
  sources: z.array(z.object({ topic: z.string(), count: z.int() })),
  by: z.string(),
  then: z.object({ topic: z.string(), type: z.enum(EVENT_TYPES) }),
  within: z.int(),
  on_expiry: z.object({ topic: z.string(), type: z.enum(EVENT_TYPES) }).nullable(),
});
export type JoinRules = z.infer<typeof JOIN_RULES>;

const schema = shape.superRefine(({ sources, then, on_expiry }, context) => {
  const refuse = (path: (string | number)[], message: string) =>
    context.addIssue({ code: 'custom', path, message });
  const topics = sources.map((each) => each.topic);
  for (const [index, each] of topics.entries())
    if (topics.indexOf(each) < index) refuse(['sources', index, 'topic'], 'is a source already');
  for (const [name, to] of Object.entries({ then, on_expiry }))
    if (to && topics.includes(to.topic))
      refuse([name, 'topic'], 'is a source of this join, which would count its own events');
});

export const RULES_INPUT: Input<JoinRules> = {
  schema,
  wording: {
    code: 'bad_join',
    whole: 'send an object with sources, by and then',
    field: (name, rule) => `${name} ${rule}`,
    unknown: (name) =>
      `unknown field ${JSON.stringify(name)}; use ${Object.keys(shape.shape).join(', ')}, and topic, count or type in them`,
  },
};

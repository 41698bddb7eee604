import { z } from 'zod';
import { BusError } from '../../errors.ts';
import { EVENT_TYPES } from '../../publishing/event.ts';
import {
  BadEvent,
  type EventContent,
  type EventLimits,
  MIN_AT_MS,
  readContent,
} from '../../publishing/event_fields.ts';
import type { Input } from '../../routing/route.ts';
import { oneOf, wholeNumber } from '../../routing/schemas.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../../routing/topic_name.ts';
import { BadCron, CronTimes } from './cron.ts';
import { CATCH_UPS } from './plan.ts';
import { MAX_TIME_MS } from './schedule.ts';
import { zoneCalled } from './zone.ts';

/** Matches the names of triggers. A name is short, so that the event id `NAME@DUE` has at most 64 characters. */
const TRIGGER_NAME = /^[a-z0-9_]{1,50}$/;
const NAME_RULE = '1 to 50 characters of a-z, 0-9 and _';
const MIN_PERIOD_MS = 1000;
const YEAR_MS = 31_536_000_000;
const SHAPES = {
  cron: '{"cron": "0 9 * * MON-FRI", "timezone": "Europe/London"}',
  every: '{"every": 60000}',
  at: '{"at": 1795000000000}',
};
const SCHEDULE_RULE = `must be ${SHAPES.cron}, ${SHAPES.every} or ${SHAPES.at}`;

const EVENT_SHAPE = {
  type: 'object',
  properties: {
    type: { enum: [...EVENT_TYPES] },
    url: { type: 'string', pattern: '^https://[^\\s]+$' },
    data: {},
  },
  required: ['type', 'url'],
} as const;
/** The fields of an event that a client sets in a trigger. The bus sets the other fields. */
const EVENT_FIELDS: ReadonlySet<string> = new Set(Object.keys(EVENT_SHAPE.properties));

const time = wholeNumber(0, MAX_TIME_MS);
// The schema of `at` and `end`. Both are in the future, so a low number is probably a time in seconds, and is refused.
// A low `start` is accepted: the periods of `every` may be counted from any time since 1970.
const timeAhead = time.min(MIN_AT_MS, 'looks like seconds; send milliseconds since 1970');

const cron = z
  .strictObject({
    cron: z.string(SCHEDULE_RULE),
    timezone: z
      .string(SCHEDULE_RULE)
      .refine((name) => zoneCalled(name) !== undefined, 'must be a time zone of IANA, such as Europe/London')
      .default('UTC'),
  })
  .superRefine((schedule, context) => {
    const zone = zoneCalled(schedule.timezone);
    try {
      if (zone) CronTimes.of(schedule.cron, zone);
    } catch (error) {
      if (!(error instanceof BadCron)) throw error;
      context.addIssue({ code: 'custom', path: ['cron'], message: error.message });
    }
  });
const every = z.strictObject({ every: wholeNumber(MIN_PERIOD_MS, YEAR_MS) });
const at = z.strictObject({ at: timeAhead });
export const SCHEDULE = z.union([cron, every, at], { error: ({ input }) => scheduleRule(input) });

/**
 * Returns the text of the error for a bad schedule: the form that a schedule must have. If the client sent a duration
 * or a time as a text, such as `5s`, the error says that it must be a number of milliseconds.
 */
function scheduleRule(schedule: unknown): string {
  const given = (schedule ?? {}) as { every?: unknown; at?: unknown };
  if (typeof given.every === 'string') return `must be ${SHAPES.every}: every is a number of milliseconds`;
  if (typeof given.at === 'string') return `must be ${SHAPES.at}: at is a number of milliseconds since 1970`;
  return SCHEDULE_RULE;
}

const trigger = z.strictObject({
  topic: z
    .string('must be a topic name')
    .regex(TOPIC_NAME, `must be a topic name: ${TOPIC_NAME_RULE}`)
    .describe('Where its events go.'),
  // `readTriggerEvent` checks the event. This schema describes it for the documentation and for the client package.
  event: z
    .unknown()
    .optional()
    .meta(EVENT_SHAPE)
    .describe('What it publishes, without `id` and `timestamp`: these are of the due time.'),
  schedule: SCHEDULE.describe(
    '`cron` and `timezone`; `every` so many ms from `start` on; or `at` one time, in ms since 1970.',
  ),
  start: time.nullish().describe('No time before this; unless given, when the trigger was made.'),
  end: timeAhead.nullish().describe('No time after this.'),
  offset: wholeNumber(-YEAR_MS, YEAR_MS)
    .nullish()
    .describe('Ms by which each time is moved; 0 unless given.'),
  catch_up: oneOf(CATCH_UPS)
    .nullish()
    .describe('Which of the times fire that are more than 10 seconds late; `latest` unless given.'),
  paused: z.boolean('must be true or false').nullish().describe('Whether nothing fires.'),
});

export type TriggerBody = z.infer<typeof trigger>;

export const TRIGGER_BODY: Input<TriggerBody> = {
  schema: trigger,
  wording: {
    code: 'bad_trigger',
    whole: 'send an object with topic, event and schedule',
    field: (name, rule) => `${name} ${rule}`,
    unknown: (name) => `unknown field ${JSON.stringify(name)}; use ${Object.keys(trigger.shape).join(', ')}`,
  },
};

export const TRIGGER_PARAMS: Input<{ name: string }> = {
  schema: z.object({ name: z.string().regex(TRIGGER_NAME).describe('The name of the trigger.') }),
  wording: { code: 'bad_trigger', whole: `the name of a trigger has ${NAME_RULE}` },
};

/** Checks the event of a trigger by the rules for published events, and returns its content. Throws bad_trigger. */
export function readTriggerEvent(value: unknown, limits: EventLimits): EventContent {
  try {
    return readContent(value, limits, EVENT_FIELDS);
  } catch (error) {
    if (!(error instanceof BadEvent)) throw error;
    const { field, message } = error;
    throw badTrigger(field === undefined ? 'event' : `event.${field}`, `event: ${message}`);
  }
}

export function badTrigger(field: string, detail: string, priceInCalls = 0): BusError {
  return new BusError('bad_trigger', detail, { members: { field }, priceInCalls });
}

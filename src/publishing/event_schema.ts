import { z } from 'zod';
import type { EventDialect } from '../routing/dialect.ts';
import { NAMED } from '../routing/schemas.ts';
import { EVENT_TYPES } from './event.ts';
import { EVENT_ID, MAX_DATA_DEPTH, MAX_DELAY_MS, MIN_AT_MS, SECONDS } from './event_fields.ts';
import { MAX_EVENTS } from './event_input.ts';

const type = z.enum(EVENT_TYPES).describe('What happened to it.');
const WHAT = 'What changed.';
const data = z.unknown().optional();

const DATA = `Any JSON, at most ${MAX_DATA_DEPTH} levels deep and \`ROUTEMASTER_MAX_EVENT_DATA\` bytes.`;

/** Returns the schema of the body of a publish, for the documentation; `event_fields.ts` checks the events. */
export function publishBody({ maxUrlLength, ignoresUnknownFields, loosensTimestamps }: EventDialect) {
  const timestamp = loosensTimestamps
    ? z.union([z.number(), z.string().regex(/^-?\d{1,15}$/), z.literal(false)])
    : z.union([z.int().max(SECONDS.min - 1), z.int().min(SECONDS.max)]);
  const fields = {
    type,
    url: z
      .string()
      .max(maxUrlLength)
      .regex(/^https:\/\/[^\s\p{Cc}]+$/u)
      .describe(WHAT),
    id: z
      .string()
      .regex(EVENT_ID)
      .nullish()
      .describe('The id of the event, the same for every subscriber; unless given, the bus makes one.'),
    timestamp: timestamp
      .nullish()
      .describe(
        `When it happened, in ms since 1970${loosensTimestamps ? '' : ' (ten digits, as seconds have, are refused)'}; ` +
          'unless given, when the bus got it, or when it is due.',
      ),
    at: z
      .int()
      .min(MIN_AT_MS)
      .nullish()
      .describe('When to publish it, in ms since 1970, at most a year ahead; unless given, at once.'),
    delay: z
      .int()
      .min(0)
      .max(MAX_DELAY_MS)
      .nullish()
      .describe('The same in ms from now. An event has `at` or `delay`, not both.'),
    data: data.describe(DATA),
  };
  const event = (ignoresUnknownFields ? z.object(fields) : z.strictObject(fields)).register(NAMED, {
    name: 'Event',
  });
  return z.union([event, z.array(event).min(1).max(MAX_EVENTS)]);
}

/** The schema of an event in a delivery, for the documentation. */
export const DELIVERED_EVENT = z
  .object({
    id: z.string().describe('The id of the event, the same for every subscriber and at every attempt.'),
    topic: z.string().describe('The name of the topic.'),
    type,
    url: z.string().describe(WHAT),
    t: z.int().describe('When it happened, in ms since 1970.'),
    data: data.describe('What the publisher sent; missing if there was none.'),
  })
  .register(NAMED, { name: 'DeliveredEvent' });

export type DeliveredEvent = z.infer<typeof DELIVERED_EVENT>;

export const DELIVERED = z.array(DELIVERED_EVENT);

import { z } from 'zod';
import { DELIVERED_EVENT } from '../../publishing/event_schema.ts';
import { NAMED } from '../../routing/schemas.ts';
import { readDefinition } from './definition.ts';
import { CATCH_UPS } from './plan.ts';
import type { StoredTrigger } from './stored_trigger.ts';
import { SCHEDULE } from './trigger_input.ts';

/** Times are in ms since the Unix epoch. */
export const TRIGGER_REPORT = z
  .object({
    name: z.string(),
    client: z.string().optional().describe('Whose trigger it is; for root and viewers.'),
    topic: z.string(),
    event: DELIVERED_EVENT.omit({ id: true, topic: true, t: true }),
    schedule: SCHEDULE,
    start: z.int(),
    end: z.int().nullable(),
    offset: z.int(),
    catch_up: z.enum(CATCH_UPS),
    paused: z.boolean(),
    next_at: z.int().nullable().describe('When it fires next, also while it is paused.'),
    last_at: z.int().nullable().describe('The last due time that fired.'),
    fired: z.int().describe('How many due times fired. What is fired by hand is not counted.'),
    missed: z.int().describe('How many did not.'),
    last_error: z
      .object({ code: z.string(), at: z.int() })
      .nullable()
      .describe(
        'Why it did not publish, or was paused by the bus: the code of the error that a publish gets.',
      ),
  })
  .register(NAMED, { name: 'Trigger' });

export type TriggerReport = z.infer<typeof TRIGGER_REPORT>;

export function reportOf(stored: StoredTrigger, client?: string): TriggerReport {
  const { topic, event, timing, catchUp } = readDefinition(stored.text);
  const { paused, next_at, last_at, fired, missed, error, error_at } = stored.state;
  return {
    name: stored.name,
    ...(client !== undefined && { client }),
    topic,
    event,
    ...timing,
    catch_up: catchUp,
    paused: paused !== undefined,
    next_at: next_at === undefined ? null : Number(next_at),
    last_at: last_at === undefined ? null : Number(last_at),
    fired: Number(fired ?? 0),
    missed: Number(missed ?? 0),
    last_error: error === undefined ? null : { code: error, at: Number(error_at) },
  };
}

import type { EventContent } from '../../publishing/event_fields.ts';
import type { Computing } from './computing.ts';
import { readDefinition } from './definition.ts';
import { type Timing, timesOf } from './schedule.ts';
import type { StoredTrigger } from './stored_trigger.ts';
import { badTrigger, type TriggerBody } from './trigger_input.ts';
import type { Wanted } from './triggers.ts';

/**
 * Returns what to store when a client creates or changes a trigger. If the schedule, `start`, `end` and `offset` stay
 * the same, the stored due time is kept. If it passed while the trigger was paused, `catch_up` decides whether the
 * trigger still fires for it. Otherwise the first due time after now is stored. Throws bad_trigger if there is none.
 */
export function wanted(
  body: TriggerBody,
  event: EventContent,
  stored: StoredTrigger | undefined,
  nowMs: number,
  computing: Computing,
): Wanted {
  const before = stored && readDefinition(stored.text).timing;
  const timing: Timing = {
    schedule: body.schedule,
    start: body.start ?? before?.start ?? nowMs,
    end: body.end ?? null,
    offset: body.offset ?? 0,
  };
  const definition = { topic: body.topic, event, catchUp: body.catch_up ?? ('latest' as const), timing };
  const isPaused = body.paused ?? false;
  if (JSON.stringify(before) === JSON.stringify(timing)) return { definition, isPaused };
  const nextAt = computing.run(() => timesOf(timing).next(nowMs));
  if (nextAt !== undefined) return { definition, isPaused, nextAt };
  const detail =
    'schedule has no time from now on, or none within eight years; see start, end and offset too';
  throw badTrigger('schedule', detail, computing.priceInCalls);
}

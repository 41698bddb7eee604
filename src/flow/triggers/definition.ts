import { parseOwnJson } from '../../json.ts';
import { aroundTimestamp } from '../../publishing/event.ts';
import type { EventContent } from '../../publishing/event_fields.ts';
import type { DeliveredEvent } from '../../publishing/event_schema.ts';
import type { CatchUp } from './plan.ts';
import type { Timing } from './schedule.ts';

/** The part of a trigger that only the client sets. `paused` is stored elsewhere, because the bus can change it too. */
export interface Definition {
  topic: string;
  event: EventContent;
  catchUp: CatchUp;
  timing: Timing;
}

interface ReadDefinition extends Omit<Definition, 'event'> {
  event: Omit<DeliveredEvent, 'id' | 'topic' | 't'>;
}

const BEFORE_ID = '{"id":"';

/**
 * Returns the definition of a trigger as Redis stores it, in six lines: revision, topic, `catch_up`, timing, and two
 * parts of the JSON of its event, `head` and `tail`. When the trigger fires, a script adds the id before `head`, and
 * the time between `head` and `tail`. `revision` is an id that no other definition has.
 */
export function definitionText(revision: string, { topic, event, catchUp, timing }: Definition): string {
  const [before, tail] = aroundTimestamp({ id: '', topic, ...event });
  const head = before.slice(BEFORE_ID.length);
  return [revision, topic, catchUp, JSON.stringify(timing), head, tail].join('\n');
}

export function readDefinition(text: string): ReadDefinition {
  const [, topic = '', catchUp, timing = '', head = '', tail = ''] = text.split('\n');
  const delivered = parseOwnJson(`${BEFORE_ID}${head}0${tail}`) as DeliveredEvent;
  const { id: _id, topic: _topic, t: _t, ...event } = delivered;
  return {
    topic,
    catchUp: catchUp as CatchUp,
    timing: JSON.parse(timing) as Timing,
    event,
  };
}

/** Returns the topic to which a trigger publishes. `text` is its definition as Redis stores it. */
export function topicOfDefinition(text: string): string {
  return text.split('\n', 2)[1] ?? '';
}

export function revisionOf(text: string): string {
  return text.slice(0, text.indexOf('\n'));
}

/**
 * Returns the JSON of the event that a trigger publishes at `nowMs`. `text` is the definition of the trigger as Redis
 * stores it.
 */
export function eventNow(text: string, id: string, nowMs: number): string {
  const [, , , , head, tail] = text.split('\n');
  return `${BEFORE_ID}${id}${head}${nowMs}${tail}`;
}

import { randomSpaces } from '../ids.ts';

export const EVENT_TYPES = ['create', 'update', 'delete', 'noop'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export interface Event {
  /** The event's id, the same for all subscribers and attempts: visible ASCII characters except `"` and `\`. */
  id: string;
  /** True if the publisher has chosen the id. */
  hasGivenId?: boolean;
  topic: string;
  type: EventType;
  url: string;
  /** The time of the event, in milliseconds since the Unix epoch. */
  timestamp: number;
  /** The data as JSON text. */
  data?: string | undefined;
}

/**
 * An event that the publisher wants to be published later. Redis decides by its own clock whether the time has come.
 */
export interface TimedEvent {
  id: string;
  /** When to publish the event: `at` in ms since the Unix epoch, or `delay` in ms after Redis gets it. */
  at?: number;
  delay?: number;
  text: string;
  /**
   * The end of the event's text, if the event has no timestamp yet. Redis then puts the time at which the event is due
   * between `text` and `rest`.
   */
  rest?: string;
}

/**
 * Returns the JSON text of an event, which Redis stores and subscribers get. Scripts rely on two things: the text
 * begins with `{`, and the topic is its second member.
 */
export function eventText(event: Event): string {
  const [before, after] = aroundTimestamp(event);
  return `${before}${event.timestamp}${after}`;
}

/**
 * Returns a delayed event: one that the bus publishes at the time `due.at`, or `due.delay` ms after Redis gets it. If
 * `timestamp` is undefined, the event gets the time at which it is due.
 */
export function timedEvent(
  event: Omit<Event, 'timestamp'>,
  timestamp: number | undefined,
  due: { at: number } | { delay: number },
): TimedEvent {
  const [before, after] = aroundTimestamp(event);
  const { id } = event;
  const known = timestamp ?? ('at' in due ? due.at : undefined);
  if (known === undefined) return { id, ...due, text: before, rest: after };
  return { id, ...due, text: `${before}${known}${after}` };
}

/**
 * Returns the two parts of an event's JSON text, before and after the timestamp. If the timestamp is not known yet,
 * Redis inserts it later.
 *
 * No publisher may know the whole text in advance. Redis's Lua keeps all strings in one hash table, whose hash is known
 * and has no seed: 10,000 texts that were chosen to have the same hash blocked Redis for a second, in place of 20 ms.
 * The hash reads a text from its end to its beginning. If the bus has made the id, its random characters tell the
 * hashes apart. If the publisher has chosen the id, random spaces before the timestamp do it.
 */
export function aroundTimestamp({
  id,
  hasGivenId,
  topic,
  type,
  url,
  data,
}: Omit<Event, 'timestamp'>): [before: string, after: string] {
  const spaces = hasGivenId ? randomSpaces() : '';
  const before = `{"id":"${id}","topic":"${topic}","type":"${type}","url":${JSON.stringify(url)},"t":${spaces}`;
  return [before, data === undefined ? '}' : `,"data":${data}}`];
}

export const EVENT_TYPES = ['create', 'update', 'delete', 'noop'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export interface Event {
  /** The event's id, the same for all subscribers and attempts: visible ASCII characters except `"` and `\`. */
  id: string;
  topic: string;
  type: EventType;
  url: string;
  /** The time of the event, in milliseconds since the Unix epoch. */
  timestamp: number;
  /** The data as JSON text. Undefined if the event has no data. */
  data?: string | undefined;
}

/** An event for which the publisher gave a time. Redis decides by its own clock whether the time has come. */
export interface TimedEvent {
  id: string;
  /** When to publish the event: `at` in ms since the Unix epoch, or `delay` in ms after Redis gets it. */
  at?: number;
  delay?: number;
  text: string;
  /** The second part of an event without a timestamp. Redis puts the time of publication between `text` and `rest`. */
  rest?: string;
}

/**
 * Returns the JSON text of an event, which Redis stores and subscribers get. Scripts rely on its beginning: `{`, with
 * which no event of an older release begins, and the topic as the second member.
 */
export function eventText(event: Event): string {
  const [before, after] = aroundTimestamp(event);
  return `${before}${event.timestamp}${after}`;
}

/**
 * Returns an event that the bus publishes at the time, or after the delay, of `due`. If the publisher gave no
 * timestamp, the time of publication becomes the timestamp.
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
 * Returns the JSON text of an event in two parts. The timestamp is put between them when it is known. A delayed event
 * may get as its timestamp the time when it is due.
 */
export function aroundTimestamp({
  id,
  topic,
  type,
  url,
  data,
}: Omit<Event, 'timestamp'>): [before: string, after: string] {
  const before = `{"id":"${id}","topic":"${topic}","type":"${type}","url":${JSON.stringify(url)},"t":`;
  return [before, data === undefined ? '}' : `,"data":${data}}`];
}

export const EVENT_TYPES = ['create', 'update', 'delete', 'noop'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export interface Event {
  /** The event's id, the same for all subscribers and attempts. Visible ASCII except `"` and `\`. */
  id: string;
  topic: string;
  type: EventType;
  url: string;
  /** Milliseconds since the Unix epoch. */
  timestamp: number;
  /** JSON text; undefined if the event has no data. */
  data?: string | undefined;
}

/** An event with a time of its own. Redis's clock decides whether it is published at once or later. */
export interface TimedEvent {
  id: string;
  /** Either `at`, when it is due (ms since the Unix epoch), or `delay`, how many ms after Redis gets it. */
  at?: number;
  delay?: number;
  text: string;
  /** If present, `text` ends where the timestamp belongs: Redis puts the due time between `text` and `rest`. */
  rest?: string;
}

/**
 * Returns the JSON text of an event, which Redis stores and subscribers get. Lua tells it from an event of an older
 * release by its first byte, `{`, and reads the topic from its first two members (`drop_records.lua`).
 */
export function eventText(event: Event): string {
  const [before, after] = aroundTimestamp(event);
  return `${before}${event.timestamp}${after}`;
}

/** Returns an event that is due at a time. If its publisher gave no timestamp, the due time becomes its timestamp. */
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

/** Returns the JSON text of an event in two parts: before its timestamp and after it. */
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

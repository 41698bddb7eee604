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

/**
 * Returns the JSON text of an event, which Redis stores and subscribers get. Lua recognizes it by its first
 * byte, and reads the topic from its first two members (`drop_records.lua`).
 */
export function eventText({ id, topic, type, url, timestamp, data }: Event): string {
  const head = `{"id":"${id}","topic":"${topic}","type":"${type}","url":${JSON.stringify(url)},"t":${timestamp}`;
  return data === undefined ? `${head}}` : `${head},"data":${data}}`;
}

/** The kinds of change that an event may tell of. */
export const EVENT_TYPES = ['create', 'update', 'delete', 'noop'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export interface Event {
  /** The same for every subscriber and every attempt: visible ASCII characters other than `"` and `\`. */
  id: string;
  topic: string;
  type: EventType;
  url: string;
  /** Milliseconds since the Unix epoch. */
  timestamp: number;
  /** Any JSON value as JSON text; undefined: none. */
  data?: string | undefined;
}

/**
 * The text that Redis stores for an event, and that its subscribers get. Lua tells it by its first byte, and its topic by the
 * two members that come first (`autodrop.lua`).
 */
export function eventText({ id, topic, type, url, timestamp, data }: Event): string {
  const head = `{"id":"${id}","topic":"${topic}","type":"${type}","url":${JSON.stringify(url)},"t":${timestamp}`;
  return data === undefined ? `${head}}` : `${head},"data":${data}}`;
}

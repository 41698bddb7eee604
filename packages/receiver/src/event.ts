/** An event as it was published. */
export interface ReceivedEvent<Data = unknown> {
  /** The id of the event, the same for every subscriber and at every attempt. */
  id: string;
  topic: string;
  type: 'create' | 'update' | 'delete' | 'noop';
  url: string;
  /** The time of the event, in milliseconds since 1970. By default it is the time at which the event was published. */
  t: number;
  data?: Data;
}

/** One attempt to deliver a batch of events. */
export interface Delivery {
  /** The id of the batch, from the header `webhook-id`. It is the same at every attempt. */
  id: string;
  /** The number of this attempt, from 1. */
  attempt: number;
  dropped?: DropNotice;
}

/** A notice that the bus dropped `batches` batches with `events` events in all, because its memory was full. */
export interface DropNotice {
  batches: number;
  events: number;
  /** When the oldest (`from`) and the newest (`to`) of the dropped batches were created, in milliseconds since 1970. */
  from: number;
  to: number;
  /** For each topic, how many of its events were dropped. */
  topics: Record<string, number>;
  /** The number of further topics that lost events, but are not listed in `topics`. */
  more: number;
}

/** Reads a drop notice from the header `routemaster-gap`, a dictionary of structured fields (RFC 9651). */
export function readDropNotice(header: string): DropNotice {
  const number = (name: string) => Number(new RegExp(`(?:^|[ ,])${name}=(\\d+)`).exec(header)?.[1] ?? 0);
  const list = /(?:^|[ ,])topics=\(([^)]*)\)/.exec(header)?.[1] ?? '';
  const topics = [...list.matchAll(/"([^"]+)";events=(\d+)/g)].map(([, topic, events]) => [
    topic,
    Number(events),
  ]);
  return {
    batches: number('batches'),
    events: number('events'),
    from: number('from'),
    to: number('to'),
    topics: Object.fromEntries(topics),
    more: number('more'),
  };
}

import type { Delivery } from './delivery.ts';

/** Matches the JSON of an event up to the end of its topic. The first group is the topic. */
const TOPIC_OF_EVENT = /^\{"id":"[^"]*","topic":"(\w+)"/;

/**
 * Yields the JSON of a batch with its events in pieces, because it can be hundreds of megabytes. The fields `bytes` and
 * `topics` (the number of events of each topic) come last, because all events must be counted first. If the batch was
 * accepted or dropped meanwhile, events are missing, and both fields are null.
 */
export async function* wholeJson(
  { bytes: _, topics: __, ...delivery }: Delivery,
  slices: AsyncIterable<readonly string[]>,
): AsyncGenerator<string> {
  yield `${JSON.stringify(delivery).slice(0, -1)},"events":[`;
  const topics = new Map<string | undefined, number>();
  let [count, bytes] = [0, 1];
  for await (const slice of slices) {
    for (const event of slice) {
      const topic = TOPIC_OF_EVENT.exec(event)?.[1];
      topics.set(topic, (topics.get(topic) ?? 0) + 1);
      bytes += Buffer.byteLength(event) + 1;
      yield count === 0 ? event : `,${event}`;
      count++;
    }
  }
  const isWhole = count === delivery.event_count;
  const counts = isWhole && !topics.has(undefined) ? Object.fromEntries(topics) : null;
  yield `],"bytes":${isWhole ? bytes : null},"topics":${JSON.stringify(counts)}}`;
}

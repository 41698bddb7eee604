import type { Delivery } from './delivery.ts';

/** Matches the JSON of an event up to the end of its topic. The first group is the topic. */
const TOPIC_OF_EVENT = /^\{"id":"[^"]*","topic":"(\w+)"/;

/**
 * Yields the JSON of a batch with its events in pieces, because the events can be hundreds of megabytes. If the batch
 * is accepted or dropped meanwhile, some events are missing, and `bytes` and `topics` are null.
 */
export async function* wholeJson(
  { bytes: _, topics: __, ...delivery }: Delivery,
  slices: AsyncIterable<readonly string[]>,
): AsyncGenerator<string> {
  yield `${JSON.stringify(delivery).slice(0, -1)},"events":[`;
  const sum = new EventSum();
  let separator = '';
  for await (const slice of slices) {
    for (const event of slice) {
      sum.add(event);
      yield separator + event;
      separator = ',';
    }
  }
  const { bytes, topics } = sum.of(delivery.event_count);
  yield `],"bytes":${bytes},"topics":${JSON.stringify(topics)}}`;
}

/**
 * Sums up the events of a batch: how many events each topic has, and how many bytes a delivery of the batch has.
 * `of(expected)` returns these figures. They are null if not exactly `expected` events were added.
 */
class EventSum {
  #events = 0;
  #bytes = 1;
  #topics: Map<string, number> | undefined = new Map();

  add(event: string): void {
    this.#events++;
    this.#bytes += Buffer.byteLength(event) + 1;
    const topic = TOPIC_OF_EVENT.exec(event)?.[1];
    if (topic === undefined) this.#topics = undefined;
    else this.#topics?.set(topic, (this.#topics.get(topic) ?? 0) + 1);
  }

  of(expected: number): Pick<Delivery, 'bytes' | 'topics'> {
    if (this.#events !== expected) return { bytes: null, topics: null };
    return { bytes: this.#bytes, topics: this.#topics ? Object.fromEntries(this.#topics) : null };
  }
}

import type { Delivery, Receiver } from '../harness/http/receiver.ts';

/** Dropped events of a subscriber, as its drop notices or the API count them. */
interface Missing {
  batches: number;
  events: number;
  from: number;
  to: number;
  topics: Record<string, number>;
}

interface Accepted {
  url: string;
  topic: string;
}

/** Compares the events accepted for a subscriber, in their order, with the events it received and its drop notices. */
export class DropBooks {
  readonly receiver: Receiver;
  readonly #topics: readonly string[];
  readonly #accepted: Accepted[] = [];

  constructor(receiver: Receiver, topics: readonly string[]) {
    this.receiver = receiver;
    this.#topics = topics;
  }

  accept(topic: string, urls: readonly string[]): void {
    if (this.#topics.includes(topic)) for (const url of urls) this.#accepted.push({ url, topic });
  }

  /** Returns how many events of each topic the subscriber never got. Leaves out topics of which it got all events. */
  missingByTopic(): Record<string, number> {
    const received = this.#received();
    const counts: Record<string, number> = {};
    for (const { url, topic } of this.#accepted)
      if (!received.has(url)) counts[topic] = (counts[topic] ?? 0) + 1;
    return counts;
  }

  /** Returns the events that the subscriber got although their publisher never got a 2xx. */
  unaccounted(): string[] {
    const accepted = new Set(this.#accepted.map(({ url }) => url));
    return [...this.#received()].filter((url) => !accepted.has(url));
  }

  /** Returns the ids of the batches that the subscriber got although it misses events that were accepted later. */
  outlived(): string[] {
    const received = this.#received();
    const last = this.#accepted.findLastIndex(({ url }) => !received.has(url));
    const older = new Set(this.#accepted.slice(0, last + 1).map(({ url }) => url));
    return this.#taken()
      .filter(({ events }) => events.some(({ url }) => older.has(url)))
      .map(({ id }) => id);
  }

  /** Returns the sum of the drop notices in the deliveries that the subscriber took. */
  notified(): Missing {
    const headers = new Map(this.#taken().map(({ id, headers }) => [id, headers['routemaster-gap']]));
    const sum: Missing = { batches: 0, events: 0, from: Number.POSITIVE_INFINITY, to: 0, topics: {} };
    for (const header of headers.values()) {
      if (header === undefined) continue;
      const { batches, events, from, to, topics } = readDropNotice(String(header));
      sum.batches += batches;
      sum.events += events;
      sum.from = Math.min(sum.from, from);
      sum.to = Math.max(sum.to, to);
      for (const [topic, count] of Object.entries(topics))
        sum.topics[topic] = (sum.topics[topic] ?? 0) + count;
    }
    return sum;
  }

  #taken(): Delivery[] {
    return this.receiver.deliveries.filter(({ taken }) => taken);
  }

  #received(): Set<string> {
    return new Set(this.receiver.urls);
  }
}

const DROP_NOTICE = /^batches=(\d+), events=(\d+), from=(\d+), to=(\d+), topics=\((.*)\)$/;
const TOPIC = /^"([a-z0-9_]+)";events=(\d+)$/;

function readDropNotice(header: string): Missing {
  const [matched, batches, events, from, to, list = ''] = DROP_NOTICE.exec(header) ?? [];
  const topics = list.split(' ').map((item) => TOPIC.exec(item));
  if (matched === undefined || topics.includes(null)) throw new Error(`not a drop notice: ${header}`);
  return {
    ...{ batches: Number(batches), events: Number(events), from: Number(from), to: Number(to) },
    topics: Object.fromEntries(topics.map((topic) => [topic?.[1], Number(topic?.[2])])),
  };
}

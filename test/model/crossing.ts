import assert from 'node:assert/strict';
import type { Partitions } from '../../src/store/partitions.ts';

/** A change of subscriptions under way. */
export interface Change {
  /** Returns true or false if the change makes or ends this subscription, and undefined if it leaves it as it is. */
  target: (token: string, topic: string) => boolean | undefined;
  /** The subscriptions that another change also changes meanwhile, so that nobody knows which comes last. */
  disturbed: Set<string>;
}

/** What is known at some time. */
export interface Known {
  changes: Map<string, number>;
  must: Map<string, Set<string>>;
  delayed: Map<string, string[]>;
}

const SEPARATOR = ' ';

/**
 * A plain model of topics and subscribers in several partitions. It knows which subscriptions exist for certain, and
 * so which subscribers must get an event, or must not.
 *
 * When another Redis takes over for a partition, it lacks all writes since the last replication. What holds then:
 *
 * - An answered publish is not lost, because it is answered only when a replica has it. Subscribers in other partitions
 *   get each of its events once, even if the failover undoes its outbox entry, or what was done with the entry. A
 *   publish without an answer may be repeated, and subscribers get its events at most as often as Redis accepted them.
 * - After a failover, a partition may accept an event again. Subscribers get its events in the order in which it
 *   accepted them, repeats included. So an event comes twice only if the partition has accepted it twice.
 * - If the failover undoes the publishing of a delayed event, the event is published again.
 * - Subscriptions that have changed since the last replication may be as before, and so may their marks. A subscription
 *   that has lost its mark does not end when its topic is removed.
 */
export class Crossing {
  readonly #partitions: Partitions;
  readonly #pairs: [token: string, topic: string][];
  /** The subscriptions that are known to exist, or not to exist. */
  readonly #known = new Map<string, boolean>();
  readonly #changes = new Set<Change>();
  /** For each subscription, the number of changes that have begun, and of those that have ended. */
  readonly #changed = new Map<string, number>();
  /** The subscriptions that a failover may have left without a mark, until they are made again. */
  readonly #unmarked = new Set<string>();
  readonly #delayed = new Map<string, string[]>();
  /** The accepted events of the topics of each partition, in the order of acceptance. */
  readonly #accepted = new Map<number, string[]>();
  /** For each subscription, the events that the subscriber must get by it, and those that it must not get. */
  readonly #must = new Map<string, Set<string>>();
  readonly #never = new Map<string, Set<string>>();

  constructor(tokens: readonly string[], topics: readonly string[], partitions: Partitions) {
    this.#partitions = partitions;
    this.#pairs = tokens.flatMap((token) => topics.map((topic): [string, string] => [token, topic]));
    for (const pair of this.#pairs) {
      this.#known.set(pair.join(SEPARATOR), false);
      this.#must.set(pair.join(SEPARATOR), new Set());
      this.#never.set(pair.join(SEPARATOR), new Set());
    }
  }

  /** The subscriptions that exist for certain. */
  get subscriptions(): [token: string, topic: string][] {
    return this.#pairs.filter((pair) => this.#known.get(pair.join(SEPARATOR)));
  }

  begin(target: Change['target']): Change {
    const change: Change = { target, disturbed: new Set() };
    for (const [token, topic] of this.#pairs) {
      const wanted = target(token, topic);
      if (wanted === undefined) continue;
      const pair = [token, topic].join(SEPARATOR);
      this.#noteChanged(pair);
      if (wanted !== this.#known.get(pair)) this.#known.delete(pair);
      if (wanted) this.#never.get(pair)?.clear();
      for (const other of this.#changes) {
        const its = other.target(token, topic);
        if (its === undefined || its === wanted) continue;
        other.disturbed.add(pair);
        change.disturbed.add(pair);
      }
    }
    this.#changes.add(change);
    return change;
  }

  /** Notes that a change has ended. If it has failed, nobody knows what it has changed. */
  end(change: Change, isDone: boolean): void {
    this.#changes.delete(change);
    for (const [token, topic] of this.#pairs) {
      const wanted = change.target(token, topic);
      const pair = [token, topic].join(SEPARATOR);
      if (wanted !== undefined) this.#noteChanged(pair);
      if (wanted === undefined || !isDone || change.disturbed.has(pair)) continue;
      if (wanted) this.#unmarked.delete(pair);
      if (!this.#unmarked.has(pair)) this.#known.set(pair, wanted);
    }
  }

  #noteChanged(pair: string): void {
    this.#changed.set(pair, (this.#changed.get(pair) ?? 0) + 1);
  }

  known(): Known {
    return structuredClone({ changes: this.#changed, must: this.#must, delayed: this.#delayed });
  }

  /** Notes that a partition is as it was when this was known. */
  failOver(partition: number, then: Known): void {
    for (const [token, topic] of this.#pairs) {
      const isHome = this.#partitions.ofTopic(topic).index === partition;
      if (!isHome && this.#partitions.ofSubscriber(token).index !== partition) continue;
      const pair = [token, topic].join(SEPARATOR);
      const changing = [...this.#changes].filter((change) => change.target(token, topic) !== undefined);
      for (const change of changing) change.disturbed.add(pair);
      if (isHome) this.#delayed.set(topic, [...(then.delayed.get(topic) ?? [])]);
      const isChanged = this.#changed.get(pair) !== then.changes.get(pair);
      if (isHome || isChanged)
        for (const event of this.#must.get(pair) ?? [])
          if (!then.must.get(pair)?.has(event)) this.#must.get(pair)?.delete(event);
      if (isChanged) this.#known.delete(pair);
      if (isChanged) this.#never.get(pair)?.clear();
      if (isChanged || changing.length > 0) this.#unmarked.add(pair);
    }
  }

  /** Notes that the topic's home has accepted events that it will publish later. */
  delay(topic: string, events: readonly string[]): void {
    this.#delayed.set(topic, [...(this.#delayed.get(topic) ?? []), ...events]);
  }

  /** Notes that the topic's home has published the first `count` of the delayed events. */
  publishDelayed(home: number, topic: string, count: number): void {
    this.accept(home, topic, this.#delayed.get(topic)?.splice(0, count) ?? []);
  }

  /** Notes that a topic was deleted with its delayed events. Returns the number of these events. */
  dropDelayed(topic: string): number {
    return this.#delayed.get(topic)?.splice(0).length ?? 0;
  }

  /** Notes that events for a subscriber may be dropped from now on: those of one topic, or of all. */
  drop(token: string, topic?: string): void {
    for (const [one, other] of this.#pairs)
      if (one === token && (topic ?? other) === other) this.#must.get([one, other].join(SEPARATOR))?.clear();
  }

  /** Notes that the topic's home, a partition, has accepted events. */
  accept(home: number, topic: string, events: readonly string[]): void {
    this.#accepted.set(home, [...(this.#accepted.get(home) ?? []), ...events]);
    for (const [token, each] of this.#pairs) {
      if (each !== topic) continue;
      const pair = [token, topic].join(SEPARATOR);
      const known = this.#known.get(pair);
      for (const event of events) {
        if (known === true) this.#must.get(pair)?.add(event);
        if (known === false) this.#never.get(pair)?.add(event);
      }
    }
  }

  /** Asserts that a subscriber has got all events that it must get, and none that it must not get, in order. */
  assertGot(token: string, got: readonly string[]): void {
    const all = new Set(got);
    for (const [one, topic] of this.#pairs) {
      if (one !== token) continue;
      const pair = [token, topic].join(SEPARATOR);
      for (const event of this.#must.get(pair) ?? [])
        assert.ok(all.has(event), `${token} gets ${event}: ${got}`);
      for (const event of this.#never.get(pair) ?? [])
        assert.ok(!all.has(event), `${token} does not get ${event}: ${got}`);
    }
    for (const accepted of this.#accepted.values()) {
      let place = -1;
      for (const event of got.filter((each) => accepted.includes(each))) {
        place = accepted.indexOf(event, place + 1);
        assert.ok(place >= 0, `${token} gets ${event} as often as it was accepted, and in order: ${got}`);
      }
    }
  }
}

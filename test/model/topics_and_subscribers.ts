import assert from 'node:assert/strict';
import type { Batch, DelayedEvent, Hold, Publication, Settings, Subscriber } from './things.ts';

/**
 * The part of the model that publishers and subscribers change: topics and their events, subscribers and their
 * subscriptions.
 */
export class TopicsAndSubscribers {
  nowMs = 0;
  /** True if another Redis has taken over, and has stored no events and scrubbed no workers since. */
  isNewRun = false;
  readonly subscribers = new Map<string, Subscriber>();
  /** The client that owns each topic. */
  readonly publishers = new Map<string, string>();
  readonly topics = new Set<string>();
  /** The fingerprint of the publication with each idempotency key. */
  readonly fingerprints = new Map<string, string>();
  /** The batches, in the order in which they were opened. */
  batches: Batch[] = [];
  readonly holds = new Map<string, Hold>();
  /** The delayed events, in the order of acceptance. */
  readonly delayed: DelayedEvent[] = [];
  /** The accepted events of each subscriber, in the order of acceptance. */
  readonly accepted = new Map<string, string[]>();
  /** The batches that have ended, of subscribers that have not left since. */
  readonly records = new Map<string, { token: string; state: 'taken' | 'dropped' }>();
  /** For each subscriber, the place of the last event that it accepted since it asked for order. */
  protected readonly takenInOrder = new Map<string, number>();

  publish(publications: Publication[]): (number | string)[] {
    const added = new Map<string, string[]>();
    const outcomes = publications.map((each) => this.#accept(each, added));
    this.#appendAll(added);
    return outcomes;
  }

  /** Accepts a publication. Its own events are published now, and `later` when they are due. */
  delay(publication: Publication, later: DelayedEvent[]): string {
    const { topic, client, key } = publication;
    const isRefused = key && this.fingerprints.has(key.digest);
    if (isRefused || (this.publishers.get(topic) ?? client) !== client)
      return String(this.publish([publication])[0]);
    const waits = new Set(this.delayedOf(topic).map(({ event }) => event));
    if (later.some(({ event }) => waits.has(event))) return 'already_delayed';
    this.publish([publication]);
    this.delayed.push(...later);
    return 'accepted';
  }

  /** The delayed events of a topic, in the order in which they are due. */
  delayedOf(topic: string): DelayedEvent[] {
    return this.delayed.filter((each) => each.topic === topic).sort((one, other) => one.dueMs - other.dueMs);
  }

  /** Publishes the events that are due. Returns their number by topic. */
  publishDelayed(): Record<string, number> {
    const due = this.delayed.filter(({ dueMs }) => dueMs <= this.nowMs);
    const published: Record<string, number> = {};
    const added = new Map<string, string[]>();
    for (const each of due.sort((one, other) => one.dueMs - other.dueMs)) {
      const { topic, event } = each;
      published[topic] = (published[topic] ?? 0) + 1;
      for (const [token, { topics }] of this.subscribers)
        if (topics.has(topic)) added.set(token, [...(added.get(token) ?? []), event]);
      this.delayed.splice(this.delayed.indexOf(each), 1);
    }
    this.#appendAll(added);
    return published;
  }

  #accept({ topic, client, events, key }: Publication, added: Map<string, string[]>): number | string {
    const known = key && this.fingerprints.get(key.digest);
    if (known !== undefined) return known === key?.fingerprint ? 'repeated' : 'key_reused';
    const publisher = this.publishers.get(topic) ?? client;
    this.publishers.set(topic, publisher);
    this.topics.add(topic);
    if (publisher !== client) return 'claimed_by_other';
    if (key) this.fingerprints.set(key.digest, key.fingerprint);
    const tokens = [...this.subscribers]
      .filter(([, { topics }]) => topics.has(topic))
      .map(([token]) => token);
    for (const token of tokens) added.set(token, [...(added.get(token) ?? []), ...events]);
    return tokens.length;
  }

  #appendAll(added: ReadonlyMap<string, string[]>): void {
    if ([...added.values()].some(({ length }) => length > 0)) this.noticeRun();
    for (const [token, events] of added) this.#append(token, events);
  }

  /** Closes all batches if another Redis has taken over: the one before may have delivered them. */
  protected noticeRun(): void {
    if (this.isNewRun) for (const batch of this.batches) batch.open = false;
    this.isNewRun = false;
  }

  #append(token: string, events: string[]): void {
    const max = this.subscribers.get(token)?.max ?? assert.fail(`${token} is no subscriber`);
    this.accepted.set(token, [...(this.accepted.get(token) ?? []), ...events]);
    const rest = [...events];
    while (rest.length > 0) {
      const batch = this.batches.find((each) => each.token === token && each.open) ?? this.#open(token);
      batch.events.push(...rest.splice(0, max - batch.events.length));
      this.#closeFull(token, max);
    }
  }

  #closeFull(token: string, max: number): void {
    for (const batch of this.batches)
      if (batch.token === token && batch.events.length >= max) batch.open = false;
  }

  #open(token: string): Batch {
    const fresh = { events: [], attempts: 0, history: [], open: true, revived: false };
    const batch: Batch = { name: undefined, token, ...fresh };
    this.batches.push(batch);
    return batch;
  }

  subscribe(token: string, { topics, ...settings }: Settings, proven: boolean): void {
    if (!this.subscribers.get(token)?.ordered) {
      this.takenInOrder.delete(token);
      for (const batch of this.batches) if (batch.token === token) batch.early = true;
    }
    const fresh = {
      proven,
      slow: false,
      pausedBy: undefined,
      throttledUntilMs: undefined,
      dropped: 0,
      told: 0,
    };
    const before = this.subscribers.get(token);
    const subscriber = { ...(before ?? fresh), topics: new Set(topics), ...settings };
    if (subscriber.pausedBy !== 'operator') this.#lift(subscriber);
    this.subscribers.set(token, subscriber);
    this.#closeFull(token, subscriber.max);
    for (const topic of topics) this.topics.add(topic);
    for (const topic of before?.topics ?? []) this.#endUnused(topic);
  }

  /** Ends a pause. The subscriber is then tried at once. */
  #lift(subscriber: Subscriber): void {
    if (subscriber.pausedBy) Object.assign(subscriber, { pausedBy: undefined, throttledUntilMs: undefined });
  }

  pause(token: string, by: 'operator' | 'subscriber'): string {
    const subscriber = this.subscribers.get(token);
    if (!subscriber) return 'subscriber_not_found';
    if (subscriber.pausedBy !== 'operator') subscriber.pausedBy = by;
    return 'ok';
  }

  resume(token: string, by: 'operator' | 'subscriber'): string {
    const subscriber = this.subscribers.get(token);
    if (!subscriber) return 'subscriber_not_found';
    if (by === 'subscriber' && subscriber.pausedBy === 'operator') return 'paused_by_operator';
    this.#lift(subscriber);
    return 'ok';
  }

  /** Returns true if there was such a subscription. */
  unsubscribe(token: string, topic: string): boolean {
    const ended = this.subscribers.get(token)?.topics.delete(topic) ?? false;
    if (ended) this.#endUnused(topic);
    return ended;
  }

  /** A topic without a publisher ends with its last subscription. */
  #endUnused(topic: string): void {
    const isUsed = [...this.subscribers.values()].some(({ topics }) => topics.has(topic));
    if (!isUsed && !this.publishers.has(topic)) this.topics.delete(topic);
  }

  leave(token: string): void {
    const left = this.subscribers.get(token)?.topics ?? [];
    this.subscribers.delete(token);
    for (const [name, record] of this.records) if (record.token === token) this.records.delete(name);
    for (const topic of left) this.#endUnused(topic);
    for (const batch of this.batches) if (batch.token === token) batch.open = false;
    for (const hold of this.holds.values()) if (this.tokenOf(hold) === token) hold.telling = 0;
  }

  giveTopic(topic: string, client: string): string {
    if (!this.topics.has(topic)) return 'topic_not_found';
    this.publishers.set(topic, client);
    return 'ok';
  }

  removeTopic(topic: string): void {
    this.topics.delete(topic);
    this.publishers.delete(topic);
    for (const { topics } of this.subscribers.values()) topics.delete(topic);
    for (const each of this.delayedOf(topic)) this.delayed.splice(this.delayed.indexOf(each), 1);
  }

  tokenOf({ work }: Hold): string | undefined {
    return typeof work === 'string' ? undefined : work.token;
  }
}

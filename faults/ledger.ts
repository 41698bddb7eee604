import type { Delivery, Receiver } from '../harness/receiver.ts';

/** How the books close. Events are counted for each subscriber by itself, but for `accepted`. */
export interface Totals {
  accepted: number;
  /** Accepted, and not received. */
  lost: number;
  /** Received again: each time counts. */
  duplicated: number;
  /** Of these, those that came in another batch: the bus has stored them twice. */
  storedTwice: number;
  /** Received after what was accepted later; only where an order is kept. */
  outOfOrder: number | undefined;
}

interface Audience {
  topic: string;
  receiver: Receiver;
  ordered: boolean;
}

/** What was accepted (a 2xx came back), and what each receiver took. An event is known by its URL. */
export class Ledger {
  readonly #accepted = new Map<string, string[]>();
  readonly #audiences: Audience[] = [];

  /** In the order of acceptance, which is only known where one publisher waits for each answer. */
  accept(topic: string, urls: readonly string[]): void {
    const all = this.#accepted.get(topic) ?? [];
    this.#accepted.set(topic, all);
    for (const url of urls) all.push(url);
  }

  /** The receiver is to get all that the topic accepts. */
  expect(audience: Audience): void {
    this.#audiences.push(audience);
  }

  get accepted(): number {
    return [...this.#accepted.values()].reduce((sum, urls) => sum + urls.length, 0);
  }

  totals(): Totals {
    let [lost, duplicated, storedTwice] = [0, 0, 0];
    let outOfOrder: number | undefined;
    for (const { topic, receiver, ordered } of this.#audiences) {
      const accepted = this.#accepted.get(topic) ?? [];
      lost += receiver.missing(accepted).length;
      const repeats = repeated(receiver.deliveries);
      duplicated += repeats.all;
      storedTwice += repeats.inOtherBatches;
      if (ordered) outOfOrder = (outOfOrder ?? 0) + misplaced(accepted, receiver.deliveries);
    }
    return { accepted: this.accepted, lost, duplicated, storedTwice, outOfOrder };
  }
}

function repeated(deliveries: readonly Delivery[]): { all: number; inOtherBatches: number } {
  const batchOf = new Map<string, string>();
  let [all, inOtherBatches] = [0, 0];
  for (const { taken, events, id } of deliveries) {
    if (!taken) continue;
    const within = new Set<string>();
    for (const { url } of events) {
      const before = batchOf.get(url);
      if (before !== undefined) all++;
      if (before !== undefined && (before !== id || within.has(url))) inOtherBatches++;
      within.add(url);
      batchOf.set(url, before ?? id);
    }
  }
  return { all, inOtherBatches };
}

/** A batch that is taken twice in a row (the first answer got lost) is in its place both times. */
function misplaced(accepted: readonly string[], deliveries: readonly Delivery[]): number {
  const places = new Map(accepted.map((url, place) => [url, place]));
  let count = 0;
  let last = { id: '', place: -1 };
  for (const { taken, events, id } of deliveries) {
    if (!taken) continue;
    let place = id === last.id ? -1 : last.place;
    for (const { url } of events) {
      const its = places.get(url);
      if (its === undefined) continue; // it was stored, and the answer did not arrive
      if (its < place) count++;
      place = Math.max(place, its);
    }
    last = { id, place: Math.max(place, last.place) };
  }
  return count;
}

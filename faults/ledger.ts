import type { Delivery, Receiver } from '../harness/http/receiver.ts';

/** The totals of a ledger. All but `accepted` count an event once for each subscriber. */
export interface Totals {
  accepted: number;
  /** Number of accepted events that were not received, or only in repeats (see `handled`). */
  lost: number;
  /** Number of receipts of events that were received before. */
  duplicated: number;
  /** Number of those duplicates that came in another batch. The bus has stored their events twice. */
  storedTwice: number;
  /**
   * Number of events that ordered subscribers received out of order. Undefined if no subscriber is ordered. An event
   * is in order if its first receipt and its last one each come after those of all events that were accepted before
   * it. So events may come again from some earlier event on, as long as they are in order then too.
   */
  outOfOrder: number | undefined;
  /**
   * Number of receipts, by ordered subscribers, of an event that came after an event which was accepted later. All
   * receipts count here, not only the first and the last of an event.
   */
  late: number;
}

interface Audience {
  topic: string;
  receiver: Receiver;
  ordered: boolean;
}

/** The events that were accepted (answered 2xx) and those that each receiver took, by their URLs. */
export class Ledger {
  readonly #accepted = new Map<string, string[]>();
  readonly #audiences: Audience[] = [];

  /** Notes accepted URLs in the order of acceptance, which is known only if one publisher waits for each answer. */
  accept(topic: string, urls: readonly string[]): void {
    const all = this.#accepted.get(topic) ?? [];
    this.#accepted.set(topic, all);
    for (const url of urls) all.push(url);
  }

  /** Makes the receiver one that must get every event which the topic accepts from now on. */
  expect(audience: Audience): void {
    this.#audiences.push(audience);
  }

  /** The URLs that a topic has accepted until now. */
  acceptedBy(topic: string): string[] {
    return [...(this.#accepted.get(topic) ?? [])];
  }

  get accepted(): number {
    return [...this.#accepted.values()].reduce((sum, urls) => sum + urls.length, 0);
  }

  totals(): Totals {
    let [lost, duplicated, storedTwice, late] = [0, 0, 0, 0];
    let outOfOrder: number | undefined;
    for (const receiver of new Set(this.#audiences.map((each) => each.receiver))) {
      const repeats = repeated(receiver.deliveries);
      duplicated += repeats.all;
      storedTwice += repeats.inOtherBatches;
    }
    for (const { topic, receiver, ordered } of this.#audiences) {
      const accepted = this.#accepted.get(topic) ?? [];
      const got = handled(receiver.deliveries);
      lost += accepted.filter((url) => !got.has(url)).length;
      if (!ordered) continue;
      const places = receivedPlaces(accepted, receiver.deliveries);
      late += latePlaces(places).length;
      outOfOrder = (outOfOrder ?? 0) + misplaced(places);
    }
    return { accepted: this.accepted, lost, duplicated, storedTwice, outOfOrder, late };
  }
}

/**
 * Returns the URLs that a receiver has handled if it ignores each delivery whose id it has taken before, as
 * docs/receiving.md tells receivers to do. The deliveries of a Ruby worker have no id, and none is ignored.
 */
function handled(deliveries: readonly Delivery[]): Set<string> {
  const urls = new Set<string>();
  const ids = new Set<string>();
  for (const { taken, events, id } of deliveries) {
    if (!taken || ids.has(id)) continue;
    if (id !== '') ids.add(id);
    for (const { url } of events) urls.add(url);
  }
  return urls;
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

/**
 * Returns the places in `accepted` of the received events, in the order of their receipt. A batch taken twice in a row
 * (its first answer got lost) counts once.
 */
function receivedPlaces(accepted: readonly string[], deliveries: readonly Delivery[]): number[] {
  const places = new Map(accepted.map((url, place) => [url, place]));
  return deliveries
    .filter(({ taken }) => taken)
    .filter(({ id }, index, all) => id !== all[index - 1]?.id)
    .flatMap(({ events }) => events)
    .flatMap(({ url }) => places.get(url) ?? []); // No place: the event was stored, but not answered 2xx.
}

/** Counts the events whose first or last receipt is out of order. */
function misplaced(places: readonly number[]): number {
  const first = [...new Set(places)];
  const last = [...new Set(places.toReversed())].toReversed();
  return new Set([...latePlaces(first), ...latePlaces(last)]).size;
}

/** Returns the places that come after a higher one. */
function latePlaces(places: readonly number[]): number[] {
  let highest = -1;
  return places.filter((place) => {
    highest = Math.max(highest, place);
    return place < highest;
  });
}

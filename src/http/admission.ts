import type { IncomingMessage } from 'node:http';
import { clock } from '../clock.ts';
import { MAX_PUBLISH_BYTES } from '../routing/route.ts';
import { Buckets } from './buckets.ts';
import { overloaded, Reservation } from './reservation.ts';

/** Maximum requests with a body that a process handles at the same time. */
const MAX_REQUESTS = 1000;
/** Maximum bytes of bodies that a process holds in memory. Parsing a body takes several times its size in addition. */
const MAX_HELD_BYTES = 128 * 1024 * 1024;
/**
 * A process reads at most this many bytes a second of one client's long bodies (64 KiB or more). Otherwise one
 * connection could bring 115 MB a second, and Node would spend half of its time on garbage collection. Valid publishes
 * are not slowed down, because parsing them is slower anyway: 16 MiB a second.
 */
const PACE = 32 * 1024 * 1024;
const PACE_BURST_MS = 250;
/**
 * Minimum time between two searches for slow bodies. A search takes up to 50 µs. It frees the memory reserved for the
 * parts of slow bodies that have not arrived.
 */
const SEARCH_EVERY_MS = 50;

/**
 * What one client, or all clients together, have under way: the number of requests with a body, and the bytes reserved
 * for these bodies.
 */
interface Holding {
  requests: number;
  bytes: number;
}

const NOTHING: Readonly<Holding> = { requests: 0, bytes: 0 };

/**
 * Limits the number of requests with a body that a process handles at the same time, and the bytes of their bodies.
 * Further requests are refused at once. If a client has n requests under way, another one is accepted only if n more
 * would still fit after it. So no client gets more than half of the limit. The same rule holds for the bytes.
 */
export class Admission {
  readonly #maxRequests: number;
  readonly #maxBytes: number;
  readonly #pace = new Buckets(PACE, PACE_BURST_MS);
  readonly #all: Holding = { ...NOTHING };
  readonly #holdings = new Map<string, Holding>();
  /**
   * Reservations whose bodies are still arriving. The longer a body has made no progress, the earlier it comes in the
   * list. This is not a Set, because V8 kept requests in memory long after they were removed from a Set.
   */
  readonly #reading: Reservation[] = [];
  #lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor({ maxRequests = MAX_REQUESTS, maxBytes = MAX_HELD_BYTES } = {}) {
    this.#maxRequests = maxRequests;
    this.#maxBytes = maxBytes;
  }

  /**
   * True if one more request with its announced body fits within the limits. If it does not fit at first, ends requests
   * whose bodies stall, frees the memory reserved for parts of slow bodies that have not arrived, and checks again. If
   * no other request is under way, any body fits.
   */
  hasRoom(request: IncomingMessage): boolean {
    const bytes = announcedBytes(request);
    return this.#hasRoomFor(() => this.#fits(bytes, NOTHING));
  }

  /**
   * Counts a request and its announced bytes until `release` of the returned reservation is called. Throws `overloaded`
   * if the request or its body does not fit within the limits.
   */
  reserve(request: IncomingMessage, client: string): Reservation {
    const bytes = announcedBytes(request);
    const holding = this.#holdings.get(client) ?? { ...NOTHING };
    if (!this.#hasRoomFor(() => this.#fits(bytes, holding))) throw overloaded();
    const reservation = new Reservation(this, client);
    if (holding.requests === 0) this.#holdings.set(client, holding);
    this.#change(holding, 1, 0);
    this.resize(reservation, bytes);
    this.#reading.push(reservation);
    return reservation;
  }

  grow(reservation: Reservation, bytes: number): void {
    const holding = this.#holdings.get(reservation.client) as Holding;
    const more = bytes - reservation.heldBytes;
    const fits = () => this.#all.requests === 1 || this.#all.bytes + holding.bytes + more <= this.#maxBytes;
    // `#hasRoomFor` may just have ended this very request, because its body stalled.
    if (!this.#hasRoomFor(fits) || reservation.isFreed) throw overloaded();
    this.resize(reservation, bytes);
  }

  resize(reservation: Reservation, bytes: number): void {
    this.#change(this.#holdings.get(reservation.client) as Holding, 0, bytes - reservation.heldBytes);
    reservation.heldBytes = bytes;
  }

  pauseAfter(bytes: number, client: string): number {
    this.#pace.take(client, bytes);
    return this.#pace.emptyForMs(client);
  }

  progressed(reservation: Reservation): void {
    this.stopWatching(reservation);
    this.#reading.push(reservation);
  }

  stopWatching(reservation: Reservation): void {
    const place = this.#reading.indexOf(reservation);
    if (place >= 0) this.#reading.splice(place, 1);
  }

  free(reservation: Reservation): void {
    const { client, heldBytes } = reservation;
    const holding = this.#holdings.get(client) as Holding;
    this.stopWatching(reservation);
    this.#change(holding, -1, -heldBytes);
    if (holding.requests === 0) this.#holdings.delete(client);
  }

  #change(holding: Holding, requests: number, bytes: number): void {
    holding.requests += requests;
    holding.bytes += bytes;
    this.#all.requests += requests;
    this.#all.bytes += bytes;
  }

  /**
   * True if one more request with a body of `bytes` fits within the limits. `held` is what its client has under way
   * already. After the new request, as much as `held` must still be free for other clients. If no request is under way,
   * any body fits.
   */
  #fits(bytes: number, held: Holding): boolean {
    if (this.#all.requests + held.requests >= this.#maxRequests) return false;
    return this.#all.requests === 0 || this.#all.bytes + held.bytes + bytes <= this.#maxBytes;
  }

  #hasRoomFor(fits: () => boolean): boolean {
    return fits() || (this.#makeRoom() && fits());
  }

  /**
   * Ends requests whose bodies stall. Frees the memory reserved for parts of slow bodies that have not arrived, but
   * looks for such bodies only once in SEARCH_EVERY_MS. Returns true if it ended a request or freed memory.
   */
  #makeRoom(): boolean {
    const before = { ...this.#all };
    while (this.#reading[0]?.isStalled) this.#reading.shift()?.takeBack();
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#lookedAtMs >= SEARCH_EVERY_MS) {
      this.#lookedAtMs = nowMs;
      for (const reservation of this.#reading) reservation.giveAhead();
    }
    return this.#all.bytes < before.bytes || this.#all.requests < before.requests;
  }
}

/**
 * Returns the Content-Length, but at most MAX_PUBLISH_BYTES. Returns 0 if this header is missing, as for a chunked
 * body: `grow` then reserves memory for the bytes that arrive.
 */
function announcedBytes({ headers }: IncomingMessage): number {
  return Math.min(Number(headers['content-length'] ?? 0), MAX_PUBLISH_BYTES);
}

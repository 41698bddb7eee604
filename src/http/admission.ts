import type { IncomingMessage } from 'node:http';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import { MAX_BODY_BYTES } from './body.ts';

/** Maximum requests that a process works on at a time. Each of them takes one place. */
const MAX_REQUESTS = 1000;
/** Maximum bytes of bodies in memory. Parsing a body takes several times its size. */
const MAX_BYTES = 128 * 1024 * 1024;
/**
 * A request whose body takes longer than this to arrive can lose its place to another request. Otherwise 26
 * idle clients, each announcing 5 MiB, would reserve all of MAX_BYTES.
 */
const SLOW_MS = 1000;

/** Limits the requests under way. A process with too much work refuses the rest at once. */
export class Admission {
  readonly #maxRequests: number;
  readonly #maxBytes: number;
  #requests = 0;
  #bytes = 0;
  /** The reservations whose body is being read, oldest first, without suspended ones. */
  readonly #reading = new Set<Reservation>();

  constructor({ maxRequests = MAX_REQUESTS, maxBytes = MAX_BYTES } = {}) {
    this.#maxRequests = maxRequests;
    this.#maxBytes = maxBytes;
  }

  /** True if there is a place, and memory for the announced body. A request on its own always fits. */
  hasRoom(request: IncomingMessage): boolean {
    const bytes = announcedBytes(request);
    return this.#fits(bytes) || (this.#suspendSlow() && this.#fits(bytes));
  }

  /** Reserves a place and bytes for a request until `release`. Throws `overloaded` if it does not fit. */
  reserve(request: IncomingMessage): Reservation {
    if (!this.hasRoom(request)) throw overloaded();
    const bytes = announcedBytes(request);
    this.#requests++;
    this.#bytes += bytes;
    const reservation = new Reservation(this, bytes);
    this.#reading.add(reservation);
    return reservation;
  }

  /** Called by a reservation that needs more bytes. Throws `overloaded`. */
  grow(bytes: number, { isSuspended }: Reservation): void {
    const others = this.#requests - (isSuspended ? 0 : 1);
    if (others > 0 && this.#bytes + bytes > this.#maxBytes) throw overloaded();
    this.#bytes += bytes;
  }

  /** Called by a suspended reservation that needs a place again. Throws `overloaded`. */
  resume(): void {
    if (!this.#fits(0)) throw overloaded();
    this.#requests++;
  }

  hasRead(reservation: Reservation): void {
    this.#reading.delete(reservation);
  }

  /** Called by a reservation that gives bytes back, and its place if `places` is 1 (not 0). */
  free(bytes: number, places: number): void {
    this.#requests -= places;
    this.#bytes -= bytes;
  }

  #fits(bytes: number): boolean {
    if (this.#requests >= this.#maxRequests) return false;
    return this.#requests === 0 || this.#bytes + bytes <= this.#maxBytes;
  }

  /**
   * Takes the places of requests with slow bodies, and their bytes that have not arrived. They continue, but
   * need a place again. Returns true if there were any.
   */
  #suspendSlow(): boolean {
    const sinceMs = clock.monotonicMs() - SLOW_MS;
    let some = false;
    for (const reservation of this.#reading) {
      if (reservation.beganMs > sinceMs) break;
      this.#reading.delete(reservation);
      reservation.suspend();
      some = true;
    }
    return some;
  }
}

/** The place and the bytes that one request holds. */
export class Reservation {
  readonly beganMs = clock.monotonicMs();
  readonly #admission: Admission;
  /** The announced bytes or those that have arrived, whichever are more. After `suspend`: those arrived. */
  #heldBytes: number;
  #arrivedBytes = 0;
  #isSuspended = false;

  constructor(admission: Admission, announcedBytes: number) {
    this.#admission = admission;
    this.#heldBytes = announcedBytes;
  }

  /** True if the reservation has no place now and holds only the bytes that have arrived (see `suspend`). */
  get isSuspended(): boolean {
    return this.#isSuspended;
  }

  /** Counts bytes of the body that have arrived. Throws `overloaded` if they do not fit. */
  arrived(bytes: number): void {
    this.#arrivedBytes += bytes;
    if (this.#arrivedBytes <= this.#heldBytes) return;
    this.#admission.grow(this.#arrivedBytes - this.#heldBytes, this);
    this.#heldBytes = this.#arrivedBytes;
  }

  /** Called when the body is complete. Throws `overloaded` if it was slow and its place is taken. */
  startWork(): void {
    this.#admission.hasRead(this);
    if (!this.#isSuspended) return;
    this.#admission.resume();
    this.#isSuspended = false;
  }

  /**
   * Called by the admission when other requests need the room of a slow body: frees the place, and those
   * reserved bytes that have not arrived. The body is still read, and `startWork` asks for a place again.
   */
  suspend(): void {
    this.#isSuspended = true;
    this.#admission.free(this.#heldBytes - this.#arrivedBytes, 1);
    this.#heldBytes = this.#arrivedBytes;
  }

  /** Frees what the reservation holds. Must be called exactly once. */
  release(): void {
    this.#admission.hasRead(this);
    this.#admission.free(this.#heldBytes, this.#isSuspended ? 0 : 1);
  }
}

/** The bytes that Content-Length announces; 0 without it. A body over the limit is not kept in memory. */
function announcedBytes({ headers }: IncomingMessage): number {
  return Math.min(Number(headers['content-length'] ?? 0), MAX_BODY_BYTES);
}

export function overloaded(): BusError {
  const detail = 'this process has as many requests under way as it can take; try again in a moment';
  return new BusError('overloaded', detail, { headers: { 'Retry-After': '1' } });
}

import type { IncomingMessage } from 'node:http';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import { MAX_BODY_BYTES } from './body.ts';

/** A process works on this many requests as fast as it can; more would only wait. */
const MAX_REQUESTS = 1000;
/** Bounds the memory that the bodies of these requests take: some times this while they are parsed. */
const MAX_BYTES = 128 * 1024 * 1024;
/** A slow body loses its place; otherwise 26 idle clients announcing 5 MiB each would hold the whole budget. */
const SLOW_MS = 1000;

/** Admits as much work as the process has room for, so that the rest can be refused at once rather than late. */
export class Admission {
  readonly #maxRequests: number;
  readonly #maxBytes: number;
  #requests = 0;
  #bytes = 0;
  /** Reservations with a place whose body is not complete, in the order of arrival. */
  readonly #reading = new Set<Reservation>();

  constructor({ maxRequests = MAX_REQUESTS, maxBytes = MAX_BYTES } = {}) {
    this.#maxRequests = maxRequests;
    this.#maxBytes = maxBytes;
  }

  /** Whether there is room for the body that a request announces. One request alone always has room. */
  hasRoom(request: IncomingMessage): boolean {
    const bytes = announcedBytes(request);
    return this.#fits(bytes) || (this.#suspendSlow() && this.#fits(bytes));
  }

  /** Reserves room for a request, until it is released. Throws `overloaded` if there is none. */
  reserve(request: IncomingMessage): Reservation {
    if (!this.hasRoom(request)) throw overloaded();
    const bytes = announcedBytes(request);
    this.#requests++;
    this.#bytes += bytes;
    const reservation = new Reservation(this, bytes);
    this.#reading.add(reservation);
    return reservation;
  }

  /** For reservations: takes more bytes. Throws `overloaded`. */
  grow(bytes: number, { isSuspended }: Reservation): void {
    const others = this.#requests - (isSuspended ? 0 : 1);
    if (others > 0 && this.#bytes + bytes > this.#maxBytes) throw overloaded();
    this.#bytes += bytes;
  }

  /** For reservations: takes a place again. Throws `overloaded`. */
  resume(): void {
    if (!this.#fits(0)) throw overloaded();
    this.#requests++;
  }

  /** For reservations: the body is complete. */
  hasRead(reservation: Reservation): void {
    this.#reading.delete(reservation);
  }

  /** For reservations: frees bytes and places. */
  free(bytes: number, places: number): void {
    this.#requests -= places;
    this.#bytes -= bytes;
  }

  #fits(bytes: number): boolean {
    if (this.#requests >= this.#maxRequests) return false;
    return this.#requests === 0 || this.#bytes + bytes <= this.#maxBytes;
  }

  /** Takes back the room of slow bodies. Answers whether there were any. */
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

/** The room of one request: a place among the requests, and bytes. */
export class Reservation {
  readonly beganMs = clock.monotonicMs();
  readonly #admission: Admission;
  /** The bytes announced, or arrived where that is more; once suspended, the bytes arrived. */
  #heldBytes: number;
  #arrivedBytes = 0;
  #isSuspended = false;

  constructor(admission: Admission, announcedBytes: number) {
    this.#admission = admission;
    this.#heldBytes = announcedBytes;
  }

  /** A suspended reservation has no place, and only the bytes that have arrived. */
  get isSuspended(): boolean {
    return this.#isSuspended;
  }

  /** More of the body has arrived. Throws `overloaded` where there is no room for it. */
  arrived(bytes: number): void {
    this.#arrivedBytes += bytes;
    if (this.#arrivedBytes <= this.#heldBytes) return;
    this.#admission.grow(this.#arrivedBytes - this.#heldBytes, this);
    this.#heldBytes = this.#arrivedBytes;
  }

  /** The body is complete, and work begins. Throws `overloaded` if the body was slow and its place is taken. */
  startWork(): void {
    this.#admission.hasRead(this);
    if (!this.#isSuspended) return;
    this.#admission.resume();
    this.#isSuspended = false;
  }

  /** For the admission: gives up the place, and the bytes that have not arrived. */
  suspend(): void {
    this.#isSuspended = true;
    this.#admission.free(this.#heldBytes - this.#arrivedBytes, 1);
    this.#heldBytes = this.#arrivedBytes;
  }

  /** To be called once. */
  release(): void {
    this.#admission.hasRead(this);
    this.#admission.free(this.#heldBytes, this.#isSuspended ? 0 : 1);
  }
}

/** 0 if the request announces no length. A body over the limit is not kept. */
function announcedBytes({ headers }: IncomingMessage): number {
  return Math.min(Number(headers['content-length'] ?? 0), MAX_BODY_BYTES);
}

export function overloaded(): BusError {
  const detail = 'this process has as many requests under way as it can take; try again in a moment';
  return new BusError('overloaded', detail, { headers: { 'Retry-After': '1' } });
}

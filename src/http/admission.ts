import type { IncomingMessage } from 'node:http';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import { MOST_BODY_BYTES } from './body.ts';

/** How many publications one process has under way: at that it works as fast as it can, and more would only wait. */
const MOST_REQUESTS = 1000;
/** And how much they may send together: bounds what bodies take of memory, some times over while they are parsed. */
const MOST_BYTES = 128 * 1024 * 1024;
/** Who has not sent the body by then keeps no room for it: else 26 clients that say 5 MiB, and send none, held all of it. */
const SLOW_MS = 1000;

/** Lets in as much work as the process has room for, so that the rest can be refused at once rather than late. */
export class Admission {
  readonly #mostRequests: number;
  readonly #mostBytes: number;
  #requests = 0;
  #bytes = 0;
  /** Those whose body is not there yet and who have room for it, in the order in which they came. */
  readonly #reading = new Set<Visit>();

  constructor({ mostRequests = MOST_REQUESTS, mostBytes = MOST_BYTES } = {}) {
    this.#mostRequests = mostRequests;
    this.#mostBytes = mostBytes;
  }

  /** Whether there is room for a request, by what it says of itself. One alone always has room. */
  hasRoom(request: IncomingMessage): boolean {
    const bytes = saidBytes(request);
    return this.#fits(bytes) || (this.#sendAside() && this.#fits(bytes));
  }

  /** Lets a request in, until it leaves. Throws `overloaded` if there is no room. */
  enter(request: IncomingMessage): Visit {
    if (!this.hasRoom(request)) throw overloaded();
    const bytes = saidBytes(request);
    this.#requests++;
    this.#bytes += bytes;
    const visit = new Visit(this, bytes);
    this.#reading.add(visit);
    return visit;
  }

  /** For visits: one takes more room. Throws `overloaded`. */
  hold(bytes: number, visit: Visit): void {
    const others = this.#requests - (visit.isAside ? 0 : 1);
    if (others > 0 && this.#bytes + bytes > this.#mostBytes) throw overloaded();
    this.#bytes += bytes;
  }

  /** For visits: one is back from aside. Throws `overloaded`. */
  takePlace(): void {
    if (!this.#fits(0)) throw overloaded();
    this.#requests++;
  }

  /** For visits: one has its body. */
  hasRead(visit: Visit): void {
    this.#reading.delete(visit);
  }

  /** For visits: one leaves, or goes aside, and what it held is free. */
  release(bytes: number, places: number): void {
    this.#requests -= places;
    this.#bytes -= bytes;
  }

  #fits(bytes: number): boolean {
    if (this.#requests >= this.#mostRequests) return false;
    return this.#requests === 0 || this.#bytes + bytes <= this.#mostBytes;
  }

  /** Takes back the room of those who send slowly. Answers whether there were any. */
  #sendAside(): boolean {
    const sinceMs = clock.monotonicMs() - SLOW_MS;
    let some = false;
    for (const visit of this.#reading) {
      if (visit.beganMs > sinceMs) break;
      this.#reading.delete(visit);
      visit.goAside();
      some = true;
    }
    return some;
  }
}

/** The stay of a request that was let in. */
export class Visit {
  readonly beganMs = clock.monotonicMs();
  readonly #admission: Admission;
  /** What it has room for: what it says, or what has come of it where that is more. */
  #held: number;
  #arrived = 0;
  #isAside = false;

  constructor(admission: Admission, said: number) {
    this.#admission = admission;
    this.#held = said;
  }

  /** Whether it counts only by what has come. */
  get isAside(): boolean {
    return this.#isAside;
  }

  /** So much of its body has come. Throws `overloaded` where there is no room for it. */
  arrived(bytes: number): void {
    this.#arrived += bytes;
    if (this.#arrived <= this.#held) return;
    this.#admission.hold(this.#arrived - this.#held, this);
    this.#held = this.#arrived;
  }

  /** Its body is there, and the work begins. Throws `overloaded` if it was slow and its place is taken. */
  work(): void {
    this.#admission.hasRead(this);
    if (!this.#isAside) return;
    this.#admission.takePlace();
    this.#isAside = false;
  }

  /** For the admission: it keeps its memory, but no place, and no room for what has not come. */
  goAside(): void {
    this.#isAside = true;
    this.#admission.release(this.#held - this.#arrived, 1);
    this.#held = this.#arrived;
  }

  /** To be called once. */
  leave(): void {
    this.#admission.hasRead(this);
    this.#admission.release(this.#held, this.#isAside ? 0 : 1);
  }
}

/** How long the body is to be: 0 if it does not say. What is over the limit is not kept. */
function saidBytes({ headers }: IncomingMessage): number {
  return Math.min(Number(headers['content-length'] ?? 0), MOST_BODY_BYTES);
}

export function overloaded(): BusError {
  const detail = 'this process has as many publications under way as it can take; try again in a moment';
  return new BusError('overloaded', detail, { headers: { 'Retry-After': '1' } });
}

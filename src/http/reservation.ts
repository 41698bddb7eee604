import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';

/**
 * A body stalls if less than STALLED_BYTES of it arrive in STALLED_MS. A body that stalls is refused if other requests
 * need its memory.
 */
const STALLED_BYTES = 64 * 1024;
const STALLED_MS = 1000;
/**
 * A body that has not arrived completely after this time is slow. If memory is short, the memory reserved for the
 * missing part of a slow body is freed.
 */
const SLOW_BODY_MS = 250;
/**
 * Whenever this many bytes of a body have arrived, they are counted against the rate limit PACE (admission.ts). A
 * shorter body is not counted, so PACE never slows it down.
 */
const PACED_BYTES = 64 * 1024;
/**
 * Minimum pause in reading a body after each PACED_BYTES. Without pauses, one turn of the event loop could read up to 2
 * MiB, for which all other requests would wait 10 ms.
 */
const MIN_PAUSE_MS = 1;

interface Room {
  /** Makes a reservation larger: `bytes` in all. Throws `overloaded` if they do not fit. */
  grow(reservation: Reservation, bytes: number): void;
  /** Makes a reservation smaller. */
  resize(reservation: Reservation, bytes: number): void;
  progressed(reservation: Reservation): void;
  /** Stops watching whether a body stalls. Called when the body is complete or given up. */
  stopWatching(reservation: Reservation): void;
  /**
   * Counts bytes against the rate at which a client may send (PACE). Returns how many ms reading should pause. 0 or
   * less means no pause.
   */
  pauseAfter(bytes: number, client: string): number;
  /** Ends a reservation: other requests may then have its place among the requests, and its bytes. */
  free(reservation: Reservation): void;
}

/** What one request takes of Admission's limits: a place among the requests, and the memory for its body. */
export class Reservation {
  readonly client: string;
  /**
   * Bytes of memory reserved for the body: its announced length, or more if more has arrived. If the body is slow,
   * `giveAhead` reduces them to the bytes that have arrived. Only Admission sets this.
   */
  heldBytes = 0;
  /** When the body last made progress (64 KiB more arrived), or its reading began. Shows whether the body stalls. */
  progressMs = clock.monotonicMs();
  readonly #room: Room;
  readonly #beganMs = this.progressMs;
  #arrivedBytes = 0;
  #progressBytes = 0;
  #unpacedBytes = 0;
  isFreed = false;
  #onTakenBack = (_: BusError) => {};

  constructor(room: Room, client: string) {
    this.#room = room;
    this.client = client;
  }

  /**
   * Admission calls `refuse` if it ends the reservation early. `refuse` must then discard the arrived part of the body.
   */
  whenTakenBack(refuse: (error: BusError) => void): void {
    this.#onTakenBack = refuse;
  }

  /**
   * Counts bytes that were read, including the rest of a refused body, which is discarded. Returns for how many ms
   * reading should pause; 0 for no pause.
   */
  pauseAfter(bytes: number): number {
    this.#unpacedBytes += bytes;
    if (this.#unpacedBytes < PACED_BYTES) return 0;
    const counted = this.#unpacedBytes;
    this.#unpacedBytes = 0;
    return Math.max(MIN_PAUSE_MS, this.#room.pauseAfter(counted, this.client));
  }

  /** Counts arrived bytes of the body. Throws `overloaded` if there is no memory for them. */
  arrived(bytes: number): void {
    this.#arrivedBytes += bytes;
    if (this.#arrivedBytes - this.#progressBytes >= STALLED_BYTES) {
      this.#progressBytes = this.#arrivedBytes;
      this.progressMs = clock.monotonicMs();
      this.#room.progressed(this);
    }
    if (this.#arrivedBytes > this.heldBytes) this.#room.grow(this, this.#arrivedBytes);
  }

  get isStalled(): boolean {
    return clock.monotonicMs() - this.progressMs >= STALLED_MS;
  }

  /**
   * Gives back the memory reserved for the part of a slow body that has not arrived yet. Otherwise 25 clients that each
   * announce 5 MiB, and send 64 KiB a second, could hold almost all memory for bodies.
   */
  giveAhead(): void {
    if (clock.monotonicMs() - this.#beganMs < SLOW_BODY_MS || this.heldBytes <= this.#arrivedBytes) return;
    this.#room.resize(this, this.#arrivedBytes);
  }

  bodyCompleted(): void {
    this.#room.stopWatching(this);
  }

  takeBack(): void {
    this.release();
    this.#onTakenBack(overloaded('its body came too slowly while others waited for room'));
  }

  /** Ends the reservation. Calling this again is harmless. */
  release(): void {
    if (this.isFreed) return;
    this.isFreed = true;
    this.#room.free(this);
  }
}

export function overloaded(why = 'this process has as many requests under way as it can take'): BusError {
  return new BusError('overloaded', `${why}; try again in a moment`, { headers: { 'Retry-After': '1' } });
}

import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';

/**
 * A body stalls if it is incomplete, and fewer than STALLED_BYTES have arrived in STALLED_MS. It is refused when other
 * requests need its memory.
 */
const STALLED_BYTES = 64 * 1024;
const STALLED_MS = 1000;
/**
 * A body is slow if it is still incomplete after this time. When memory is short, a slow body keeps memory reserved
 * only for the bytes that have arrived.
 */
const SLOW_BODY_MS = 250;
/**
 * A process reads only so many bytes per second of one client's bodies (PACE in admission.ts). Bytes are counted
 * against PACE in portions of PACED_BYTES, so the bytes of a shorter body are not counted.
 */
const PACED_BYTES = 64 * 1024;
/**
 * Minimum pause in reading a body after each PACED_BYTES. Without it, one turn of the event loop reads up to 2 MiB of a
 * body that has already arrived, which takes 10 ms.
 */
const MIN_PAUSE_MS = 1;

/**
 * The methods of Admission that a reservation calls. Admission limits the requests that a process handles at the same
 * time, and the bytes of their bodies.
 */
interface Room {
  /** Reserves more bytes for a reservation. Throws `overloaded` if they do not fit. */
  grow(bytes: number, reservation: Reservation): void;
  /** Notes that the body of the reservation's request has made progress, so it does not stall. */
  progressed(reservation: Reservation): void;
  /** Called when the body of the reservation's request is complete or given up, so it can no longer stall. */
  hasRead(reservation: Reservation): void;
  /** Gives back bytes that a reservation of the client no longer needs, so that other requests can use them. */
  shrink(bytes: number, client: string): void;
  /**
   * Counts bytes of a body against its client's limit of bytes per second. Returns the ms for which reading the body
   * should pause; 0 or less for no pause.
   */
  pauseAfter(bytes: number, client: string): number;
  /** Ends a reservation. Its request no longer counts, and its `bytes` are available to other requests. */
  free(bytes: number, client: string): void;
}

/**
 * The part of Admission's limits that one request of a client uses: it counts as one request, and reserves bytes of
 * memory for its body.
 */
export class Reservation {
  readonly client: string;
  /**
   * The bytes that are reserved: at first the announced bytes, and more if more arrive. If the body is slow, only the
   * bytes that have arrived stay reserved (see `giveAhead`).
   */
  heldBytes = 0;
  /**
   * The time at which the body last made progress (another 64 KiB had arrived). At first, the time at which its reading
   * began.
   */
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
   * Sets the function that is called if Admission ends the reservation early. The function must discard what has
   * arrived of the body.
   */
  whenTakenBack(refuse: (error: BusError) => void): void {
    this.#onTakenBack = refuse;
  }

  /**
   * Counts bytes that were read, even if they are discarded, against the limit of bytes per second for the client's
   * bodies. Returns the time (ms) for which reading should pause; 0 for no pause.
   */
  pauseAfter(bytes: number): number {
    this.#unpacedBytes += bytes;
    if (this.#unpacedBytes < PACED_BYTES) return 0;
    const counted = this.#unpacedBytes;
    this.#unpacedBytes = 0;
    return Math.max(MIN_PAUSE_MS, this.#room.pauseAfter(counted, this.client));
  }

  /** Counts bytes of the body that have arrived. Throws `overloaded` if there is no room for them. */
  arrived(bytes: number): void {
    this.#arrivedBytes += bytes;
    if (this.#arrivedBytes - this.#progressBytes >= STALLED_BYTES) {
      this.#progressBytes = this.#arrivedBytes;
      this.progressMs = clock.monotonicMs();
      this.#room.progressed(this);
    }
    if (this.#arrivedBytes <= this.heldBytes) return;
    this.#room.grow(this.#arrivedBytes - this.heldBytes, this);
    this.heldBytes = this.#arrivedBytes;
  }

  get isStalled(): boolean {
    return clock.monotonicMs() - this.progressMs >= STALLED_MS;
  }

  /**
   * Gives back bytes that are reserved for a slow body but have not arrived yet. Otherwise 25 clients could hold almost
   * all memory for bodies: each announces 5 MiB, and sends 64 KiB a second.
   */
  giveAhead(): void {
    if (clock.monotonicMs() - this.#beganMs < SLOW_BODY_MS || this.heldBytes <= this.#arrivedBytes) return;
    this.#room.shrink(this.heldBytes - this.#arrivedBytes, this.client);
    this.heldBytes = this.#arrivedBytes;
  }

  /** Notes that the body is complete. A complete body can no longer stall. */
  startWork(): void {
    this.#room.hasRead(this);
  }

  /**
   * Ends the reservation early and refuses the body. Admission calls this if the body stalls and other requests need
   * the memory.
   */
  takeBack(): void {
    this.release();
    this.#onTakenBack(overloaded('its body came too slowly while others waited for room'));
  }

  /** Ends the reservation. Calling this again has no effect. */
  release(): void {
    if (this.isFreed) return;
    this.isFreed = true;
    this.#room.hasRead(this);
    this.#room.free(this.heldBytes, this.client);
  }
}

export function overloaded(why = 'this process has as many requests under way as it can take'): BusError {
  return new BusError('overloaded', `${why}; try again in a moment`, { headers: { 'Retry-After': '1' } });
}

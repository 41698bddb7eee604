import { clock } from '../clock.ts';

/** Time for which new connections are read in slices after a connection sent too many requests at once. */
const SLICED_MS = 60_000;

interface Sliceable {
  readInSlices(): void;
}

/**
 * Decides how the connections of a server are read: whole or in slices.
 *
 * Whole means that Node's HTTP parser reads the socket by itself. This saves 7 % of the CPU of a publish. But the
 * parser emits all requests of a read at once, each takes 15 µs, and a read can bring 64 KiB with 3,600 requests. So
 * a connection that sends requests without waiting for answers (pipelining) can keep the others waiting for 54 ms. As
 * soon as a connection sends more than four at once, all open connections are read in slices from then on, and so are
 * those opened in the next minute. So such a wait can happen at most once a minute.
 */
export class ReadingMode {
  readonly #whole = new Set<Sliceable>();
  #slicedUntilMs = 0;

  /** Adds a connection that is read whole so far. Makes it read in slices at once if this is a time of slices. */
  add(connection: Sliceable): void {
    if (clock.monotonicMs() < this.#slicedUntilMs) connection.readInSlices();
    else this.#whole.add(connection);
  }

  /** Forgets a connection that is closed, or that Node's HTTP parser no longer reads. */
  remove(connection: Sliceable): void {
    this.#whole.delete(connection);
  }

  /** Makes all connections read in slices. Call this when a connection sends too many requests at once. */
  slice(): void {
    this.#slicedUntilMs = clock.monotonicMs() + SLICED_MS;
    for (const connection of this.#whole) connection.readInSlices();
    this.#whole.clear();
  }
}

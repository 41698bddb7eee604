import { clock } from '../clock.ts';

/** Time for which new connections are read in slices after a connection sent too many requests at once. */
const SLICED_MS = 60_000;

interface Sliceable {
  readInSlices(): void;
}

/**
 * Decides how the connections of a server are read: whole or in slices.
 *
 * Whole: Node's HTTP parser reads the socket by itself, which saves 11 to 15 % of the CPU of a publish. But the parser emits
 * all requests of one read together: up to 3,600 (64 KiB) if the sender does not wait for answers (pipelining). At 15
 * µs each, other connections wait for 54 ms.
 *
 * In slices: Connection gives the parser a few KB at a time. When a connection sends more than four requests at once,
 * or a body in tiny chunks, all open connections are read in slices from then on, and so are connections opened in the
 * next minute. So the long wait can happen at most once a minute.
 */
export class ReadingMode {
  readonly #whole = new Set<Sliceable>();
  #slicedUntilMs = 0;

  /**
   * Adds a connection that is read whole so far. Makes it read in slices if any connection sent too many requests at
   * once in the last minute.
   */
  add(connection: Sliceable): void {
    if (clock.monotonicMs() < this.#slicedUntilMs) connection.readInSlices();
    else this.#whole.add(connection);
  }

  /** Forgets a connection that is closed, or that Node's HTTP parser no longer reads. */
  remove(connection: Sliceable): void {
    this.#whole.delete(connection);
  }

  /** Makes all connections read in slices. Call this when a connection sends what takes long to parse. */
  slice(): void {
    this.#slicedUntilMs = clock.monotonicMs() + SLICED_MS;
    for (const connection of this.#whole) connection.readInSlices();
    this.#whole.clear();
  }
}

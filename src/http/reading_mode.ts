import { clock } from '../clock.ts';

/** If a connection has sent bytes that take long to parse, new connections are read in slices for this time. */
const SLICED_MS = 60_000;

interface Sliceable {
  readInSlices(): void;
}

/**
 * Decides how the connections of a server are read:
 * - Whole: Node's HTTP parser reads the socket directly, which saves 11 to 15 % of the CPU of a publish. But one read
 *   can bring 3,600 pipelined requests (64 KiB), for which other connections wait 54 ms.
 * - In slices: ConnectionReader gives the parser a few KB at a time.
 *
 * At first, connections are read whole. If one of them sends more than four requests at once, or a body in tiny chunks,
 * this may be an attack over several connections. So all connections that are open then, or opened within a minute, are
 * read in slices.
 */
export class ReadingMode {
  readonly #whole = new Set<Sliceable>();
  #slicedUntilMs = 0;

  add(connection: Sliceable): void {
    if (clock.monotonicMs() < this.#slicedUntilMs) connection.readInSlices();
    else this.#whole.add(connection);
  }

  remove(connection: Sliceable): void {
    this.#whole.delete(connection);
  }

  /**
   * Reads all open connections in slices until they end, and those that are opened within SLICED_MS. Call this when a
   * connection has sent bytes that take long to parse.
   */
  slice(): void {
    this.#slicedUntilMs = clock.monotonicMs() + SLICED_MS;
    for (const connection of this.#whole) connection.readInSlices();
  }
}

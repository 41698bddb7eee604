import { clock } from '../clock.ts';

/**
 * After a connection has sent bytes that take long to parse, connections that are opened within this time are read in
 * slices (see ReadingMode).
 */
const SLICED_MS = 60_000;

interface Sliceable {
  readInSlices(): void;
}

/**
 * Decides how the connections of a server are read:
 *
 * - Whole: Node's HTTP parser reads the socket by itself, which saves 11 to 15 % of the CPU of a publish. But one read
 *   can have 3,600 pipelined requests (64 KiB), which keep other connections waiting for 54 ms.
 * - In slices: ConnectionReader gives the parser a few KB at a time.
 *
 * Connections are read whole at first. If one sends more than four requests at once, or a body in tiny chunks, this may
 * be an attack by several connections. Then all open connections are read in slices, and those that are opened in the
 * next minute.
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
   * connection has sent bytes that take long to parse: it may be one of several connections of an attack.
   */
  slice(): void {
    this.#slicedUntilMs = clock.monotonicMs() + SLICED_MS;
    for (const connection of this.#whole) connection.readInSlices();
  }
}

import { clock } from '../clock.ts';

/** Time for which new connections are read in slices after a connection sent something that takes long to parse. */
const SLICED_MS = 60_000;

interface Sliceable {
  readInSlices(): void;
}

/**
 * Decides how the connections of a server are read.
 *
 * Whole: Node's HTTP parser reads the socket by itself, which saves 11 to 15 % of the CPU of a publish. But one read
 * can have 3,600 pipelined requests (64 KiB), which keep other connections waiting for 54 ms.
 *
 * In slices: Connection gives the parser a few KB at a time. When one connection sends more than four requests at once,
 * or a body in tiny chunks, all open connections are read in slices from then on, and so are those that are opened in
 * the next minute. So the wait of 54 ms comes at most once a minute.
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
   * Makes all connections be read in slices, from now on, because one of them sent something that takes long to parse.
   */
  slice(): void {
    this.#slicedUntilMs = clock.monotonicMs() + SLICED_MS;
    for (const connection of this.#whole) connection.readInSlices();
    this.#whole.clear();
  }
}

/**
 * Maximum long publishes of a client that are handled at a time. One script call stores 2,000 events, so more at a
 * time would not be stored sooner.
 */
const MAX_OF_CLIENT = 8;

/**
 * Limits how many long publishes of a client are parsed and stored at a time. The others wait with unparsed bodies:
 * parsed, 350 KB of tiny events take 12 MB, and with 128 such publishes a process took 1.5 GB.
 */
export class LongPublishes {
  readonly #clients = new Map<string, { underWay: number; waiting: (() => void)[] }>();

  /**
   * Runs `publish` as soon as fewer than MAX_OF_CLIENT publishes of the client are running. Settles as `publish`
   * does.
   */
  async run<T>(client: string, publish: () => Promise<T>): Promise<T> {
    const line = this.#clients.get(client) ?? { underWay: 0, waiting: [] };
    this.#clients.set(client, line);
    if (line.underWay < MAX_OF_CLIENT) line.underWay++;
    else await new Promise<void>((resolve) => line.waiting.push(resolve));
    try {
      return await publish();
    } finally {
      const next = line.waiting.shift();
      if (next) next();
      else if (--line.underWay === 0) this.#clients.delete(client);
    }
  }
}

import type { PublicNames } from '../authentication/public_names.ts';
import { ownerOf } from '../ids.ts';
import type { Log } from '../log.ts';

const INTERVAL_MS = 10_000;
/** Maximum lines with one message about one client in an interval. */
const MAX_LINES = 20;

type Level = 'info' | 'warn' | 'error';

interface LinesParts {
  publicNames: Pick<PublicNames, 'forLog'>;
  log: Log;
}

/**
 * Writes log lines about failed deliveries, but not too many. For each message, a client and its joins together get at
 * most MAX_LINES lines in ten seconds. If there were more, another line of the same level then says how many were left
 * out. Without this limit, a client whose callback refused every second batch caused 500 lines a second. Each thread
 * counts for itself.
 *
 * Each message has its own count, so that many lines with one message do not suppress those with a rare one.
 */
export class SubscriberLines {
  readonly #parts: LinesParts;
  /** The number of lines in the present interval, by message and client. Lines that were left out are counted too. */
  readonly #counts = new Map<string, number>();

  constructor(parts: LinesParts) {
    this.#parts = parts;
  }

  write(token: string, level: Level, line: object, message: string): void {
    const client = ownerOf(token);
    const key = `${message} ${client}`;
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    if (count === 1)
      setTimeout(() => void this.#endInterval(key, client, level, message), INTERVAL_MS).unref();
    if (count <= MAX_LINES) this.#parts.log[level](line, message);
  }

  async #endInterval(key: string, client: string, level: Level, message: string): Promise<void> {
    const { publicNames, log } = this.#parts;
    const lines = (this.#counts.get(key) ?? 0) - MAX_LINES;
    this.#counts.delete(key);
    if (lines <= 0) return;
    const subscriber = await publicNames.forLog(client);
    log[level]({ subscriber, lines, of: message }, 'left out lines about deliveries');
  }
}

import type { PublicNames } from '../authentication/public_names.ts';
import { ownerOf } from '../ids.ts';
import type { Log } from '../log.ts';

const INTERVAL_MS = 10_000;
/** Maximum log lines with the same message about one client in INTERVAL_MS. */
const MAX_LINES = 20;

type Level = 'info' | 'warn' | 'error';

interface LinesParts {
  publicNames: Pick<PublicNames, 'forLog'>;
  log: Log;
}

/**
 * Writes log lines about failed deliveries to a client, and about what its joins may not publish, but not too many: a
 * client whose callback refused every second batch once caused 500 lines a second. In each thread, a client and its
 * joins together get at most MAX_LINES lines with the same message in ten seconds. If any were left out, another line
 * of the same level then says how many.
 */
export class SubscriberLines {
  readonly #parts: LinesParts;
  /**
   * For each message and client: the number of log lines in the present interval. The first such line begins the
   * interval, which ends INTERVAL_MS later. Lines that were not written, because there were too many, count too.
   */
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

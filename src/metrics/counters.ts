import { slicesOf } from '../chunks.ts';
import { clock, sleep, within } from '../clock.ts';
import { replyBehind } from '../errors.ts';
import { uid } from '../ids.ts';
import { type Log, reasonOf } from '../log.ts';
import type { Arguments } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { packField, type Tags } from './counter_hash.ts';
import type { CounterName } from './families.ts';
import { subjectOf, totalField } from './series.ts';

/** Maximum counters to which one script call adds; 1000 take Redis about 1 ms. */
const MAX_FIELDS = 1000;
const STOP_LIMIT_MS = 5000;
const RETRY_MS = 100;

const COUNTS_KEPT = 'could not send the counts of /metrics to Redis; they are kept and sent again';
const COUNTS_UNCONFIRMED =
  'stopped before Redis confirmed these counts, which may be missing in /metrics; no event is lost';

interface Cell {
  name: CounterName;
  tags: Tags;
  count: number;
}

/** The counts that one script call adds to those in Redis. */
interface Flush {
  number: number;
  cells: Cell[];
}

/**
 * What one partition must still confirm. The flushes in `unconfirmed` are sent one after the other, the oldest first.
 */
interface Outgoing {
  partition: Partition;
  unconfirmed: Flush[];
  lastNumber: number;
  /**
   * True if Redis has refused the last flush to this partition, and has surely not added the counts of any unconfirmed
   * flush (`isInDoubt` is false).
   */
  isRefused: boolean;
  /** True if the oldest unconfirmed flush was sent, but no reply came. Redis may have added its counts. */
  isInDoubt: boolean;
}

/**
 * Counts in memory, and adds the counts to the hash `counters` at an interval. A count about a topic or a subscriber
 * goes to the partition of that topic or subscriber, and any other count to the control partition.
 *
 * Each count is added exactly once. Redis may have applied a flush that failed, if only the reply was lost. So the
 * flush is sent again with the same number, before newer flushes, and Redis ignores a number that it has applied.
 */
export class Counters {
  readonly #partitions: Partitions;
  readonly #flushIntervalMs: number;
  readonly #log: Log;
  readonly #process = uid();
  readonly #outgoing: readonly Outgoing[];
  /** The counts in memory, by name and tags. */
  readonly #cells = new Map<string, Cell>();
  #flushing: Promise<void> = Promise.resolve();
  #busy = false;
  #failing = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(partitions: Partitions, { flushIntervalMs, log }: { flushIntervalMs: number; log: Log }) {
    this.#partitions = partitions;
    const nothing = { lastNumber: 0, isRefused: false, isInDoubt: false };
    this.#outgoing = partitions.all.map((partition) => ({ partition, unconfirmed: [], ...nothing }));
    this.#flushIntervalMs = flushIntervalMs;
    this.#log = log;
  }

  /** Rounds `by`, and adds it to a counter in memory if it is above 0. Never throws. */
  increment(name: CounterName, tags: Tags, by = 1): void {
    const count = Math.round(by);
    // HINCRBY, by which Redis adds a count, takes only integers. So counts such as NaN and Infinity are skipped.
    if (!Number.isSafeInteger(count) || count <= 0) return;
    // The values of the tags are enough to tell counters apart, because counters with the same name have the same tags
    // in the same order.
    const id = [name, ...Object.values(tags)].join(' ');
    const cell = this.#cells.get(id);
    if (cell) cell.count += count;
    else this.#cells.set(id, { name, tags, count });
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.#tick(), this.#flushIntervalMs).unref();
  }

  /**
   * Ends the periodic flushes, and flushes once more. If no attempt succeeds within `limitMs`, logs the counts that may
   * be lost. Never throws.
   */
  async stop(limitMs = STOP_LIMIT_MS): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    const endAtMs = clock.monotonicMs() + limitMs;
    for (let leftMs = limitMs; leftMs > 0; leftMs = endAtMs - clock.monotonicMs()) {
      const flushed = this.flush().then(
        () => true,
        () => false,
      );
      if (await within(leftMs, flushed)) return;
      await sleep(Math.min(RETRY_MS, leftMs));
    }
    this.#logUnconfirmed();
  }

  /**
   * Sends all counts so far to Redis. Throws if Redis does not accept them; they are kept, and the next flush sends
   * them again.
   */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.catch(() => {}).then(() => this.#drain());
    return this.#flushing;
  }

  /**
   * While Redis refuses the counts of this process, returns those for `name`, a counter of the whole bus. While flushes
   * succeed, returns nothing, because the counts soon reach Redis. If the reply to a flush was lost, also returns
   * nothing, because Redis may already have added the counts.
   */
  notAccepted(name: CounterName): { tags: Tags; value: number }[] {
    const outgoing = this.#outgoing.find(({ partition }) => partition === this.#partitions.control);
    if (!outgoing?.isRefused) return [];
    const cells = [...outgoing.unconfirmed.flatMap((flush) => flush.cells), ...this.#cells.values()];
    return cells.flatMap((cell) => (cell.name === name ? { tags: cell.tags, value: cell.count } : []));
  }

  async #tick(): Promise<void> {
    if (this.#busy || (this.#cells.size === 0 && this.#unconfirmed.length === 0)) return;
    try {
      await this.flush();
      this.#failing = false;
    } catch (error) {
      // Only the reason is logged. The error has the arguments of the command, in which tags may be credentials.
      const line = { reason: reasonOf(error) };
      if (!this.#failing) this.#log.warn(line, COUNTS_KEPT);
      this.#failing = true;
    }
  }

  async #drain(): Promise<void> {
    this.#busy = true;
    try {
      const counted = Map.groupBy(this.#cells, ([, { name, tags }]) =>
        this.#partitions.ofSubject(subjectOf(name, tags) ?? {}),
      );
      const sent = await Promise.allSettled(
        this.#outgoing.map((each) => this.#sendAll(each, counted.get(each.partition) ?? [])),
      );
      for (const each of sent) if (each.status === 'rejected') throw each.reason;
    } finally {
      this.#busy = false;
    }
  }

  /**
   * First sends again the flushes that this partition has not confirmed. Then sends the counts in memory (`counted`) as
   * new flushes. Throws if a flush fails; the unconfirmed flushes then stay in memory.
   */
  async #sendAll(outgoing: Outgoing, counted: readonly [id: string, cell: Cell][]): Promise<void> {
    await this.#send(outgoing);
    for (const [id] of counted) this.#cells.delete(id);
    const cells = counted.map(([, cell]) => cell);
    for (const slice of slicesOf(cells, MAX_FIELDS))
      outgoing.unconfirmed.push({ number: ++outgoing.lastNumber, cells: slice });
    await this.#send(outgoing);
  }

  async #send(outgoing: Outgoing): Promise<void> {
    const { partition, unconfirmed } = outgoing;
    try {
      for (let flush = unconfirmed[0]; flush; flush = unconfirmed[0]) {
        const counts = flush.cells.map(sentCount);
        await partition.run('count', { process: this.#process, flush: flush.number, counts });
        unconfirmed.shift();
        outgoing.isInDoubt = false;
      }
      outgoing.isRefused = false;
    } catch (error) {
      const isReply = replyBehind(error) !== undefined;
      outgoing.isInDoubt ||= !isReply;
      outgoing.isRefused = isReply && !outgoing.isInDoubt;
      throw error;
    }
  }

  get #unconfirmed(): Flush[] {
    return this.#outgoing.flatMap(({ unconfirmed }) => unconfirmed);
  }

  /** Logs the counts that may be lost, by name. Tags are left out, because a token can be a credential. */
  #logUnconfirmed(): void {
    const counts: Partial<Record<CounterName, number>> = {};
    const unconfirmed = [...this.#unconfirmed.flatMap(({ cells }) => cells), ...this.#cells.values()];
    for (const { name, count } of unconfirmed) counts[name] = (counts[name] ?? 0) + count;
    this.#log.error({ counts }, COUNTS_UNCONFIRMED);
  }
}

function sentCount({ name, tags, count }: Cell): Arguments<'count'>['counts'][number] {
  const subject = subjectOf(name, tags);
  return {
    field: packField(name, tags),
    count,
    ...(subject && { ...subject, total: totalField(name, tags) }),
  };
}

import { Backoff } from '../backoff.ts';
import { Bell } from '../delivering/bell.ts';
import { AGENDA, type AgendaKind } from '../flow/agenda.ts';
import { failureOf, type Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import type { Wakeups } from '../store/wakeups.ts';
import { promoteDue } from './promoting.ts';

/**
 * Publishes due entries of one kind: delayed events, events of triggers, or events about expired join keys. The
 * scheduler calls this function again as long as more is due. If the function throws, the scheduler waits before the
 * next call. Several processes may run it at the same time.
 */
export type PublishDue = (signal: AbortSignal) => Promise<void>;

interface SchedulerParts {
  partition: Partition;
  wakeups: Wakeups;
  agenda: Partial<Record<AgendaKind, PublishDue>>;
  /**
   * Maximum time between two searches for due jobs. A script announces each new deadline, but the announcement can be
   * lost.
   */
  maxSleepMs: number;
  log: Log;
}

/**
 * Starts what is due: promotes scheduled jobs, so that workers can take them, and publishes the due entries of the
 * agenda (delayed events, events of triggers, and events about expired join keys). Then sleeps until the next deadline,
 * or until a script announces an earlier one.
 */
export class Scheduler {
  readonly #parts: SchedulerParts;
  readonly #bell = new Bell();
  readonly #backoff = new Backoff();
  readonly #stopping = new AbortController();
  readonly #publishing = new Map<AgendaKind, Promise<void>>();
  readonly #publishBackoffs = new Map(AGENDA.map((kind) => [kind, new Backoff()]));
  #loop: Promise<void> | undefined;

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
    parts.wakeups.on('due', () => this.#bell.ring());
  }

  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#bell.ring();
    await Promise.all([this.#loop, ...this.#publishing.values()]);
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const sleepMs = await this.#look();
      if (sleepMs > 0) await this.#bell.wait(sleepMs);
    }
  }

  /**
   * Promotes the due jobs, and begins to publish what is due: delayed events, events of triggers, and events about
   * expired join keys. Returns the ms until more is due, rounded up, and at most `maxSleepMs`.
   */
  async #look(): Promise<number> {
    const { partition, maxSleepMs, log } = this.#parts;
    try {
      const { nextDueMs, agendaDueMs } = await promoteDue(partition);
      this.#backoff.reset();
      const dueMs = AGENDA.map((kind) => this.#sleepFor(kind, agendaDueMs[kind]));
      return Math.ceil(Math.min(nextDueMs ?? maxSleepMs, ...dueMs, maxSleepMs));
    } catch (error) {
      log.warn(failureOf(error), 'cannot promote jobs; trying again');
      await this.#backoff.wait(this.#stopping.signal);
      return 0;
    }
  }

  /**
   * Begins to publish the due entries of one kind, such as triggers. Returns the ms until the next entry of this kind
   * is due, or Infinity if there is none. Also returns Infinity while entries are being published, because the end of
   * the publishing wakes the scheduler.
   */
  #sleepFor(kind: AgendaKind, dueMs: number | undefined): number {
    const publishDue = this.#parts.agenda[kind];
    const { signal } = this.#stopping;
    if (!publishDue || dueMs === undefined || this.#publishing.has(kind) || signal.aborted) return Infinity;
    if (dueMs > 0) return dueMs;
    const done = this.#publish(kind, publishDue).finally(() => {
      this.#publishing.delete(kind);
      this.#bell.ring();
    });
    this.#publishing.set(kind, done);
    return Infinity;
  }

  async #publish(kind: AgendaKind, publishDue: PublishDue): Promise<void> {
    const backoff = this.#publishBackoffs.get(kind) as Backoff;
    try {
      await publishDue(this.#stopping.signal);
      backoff.reset();
    } catch (error) {
      this.#parts.log.warn({ kind, ...failureOf(error) }, 'cannot publish what is due; trying again');
      await backoff.wait(this.#stopping.signal);
    }
  }
}

import { Backoff } from '../backoff.ts';
import { uid } from '../ids.ts';
import { AckGroup } from './ack_group.ts';
import { type AssignmentParts, reasonOf } from './assignment.ts';
import { Bell } from './bell.ts';
import type { Grant } from './grant.ts';
import { HeldJobs } from './held_jobs.ts';
import type { Finished } from './settlement.ts';

export interface WorkersParts extends Omit<AssignmentParts, 'acknowledge'> {
  /** Called whenever the number of idle workers has changed. */
  onIdle?: (idle: number) => void;
  /** Called when there may be a job, and all workers here are busy. */
  wakeOthers?: () => void;
}

export interface WorkersSettings {
  /** How many workers. */
  count: number;
  /** How often idle workers look for jobs though nobody woke them, and all renew their leases. */
  tickMs: number;
}

/** A third of the lease at most: a worker may miss two heartbeats before it counts as dead. */
export function tickMs(config: { acquireTimeoutMs: number; leaseMs: number }): number {
  return Math.min(config.acquireTimeoutMs, config.leaseMs / 3);
}

/**
 * The workers of one thread and queue. Each has an id and at most one pending job. One call at a time acknowledges the
 * jobs that were finished since the last one, and acquires jobs for idle workers; they sleep until `wake` is called.
 */
export class Workers {
  readonly #parts: WorkersParts;
  readonly #settings: WorkersSettings;
  readonly #idle: Set<string>;
  readonly #held: HeldJobs;
  readonly #acks = new AckGroup();
  readonly #bell = new Bell();
  readonly #backoff = new Backoff();
  /** Aborted when no more jobs are to be taken. */
  readonly #stopping = new AbortController();
  /** How many jobs may be ready, at least. */
  #readyJobs = 1;
  /**
   * Whether all idle workers ask with the next call: at a tick, which tells Redis that they are alive, and after a failed
   * call, which may have given them jobs. Each gets that job again.
   */
  #allAsk = true;
  #loop: Promise<void> | undefined;

  constructor(parts: WorkersParts, settings: WorkersSettings) {
    this.#parts = parts;
    this.#settings = settings;
    this.#idle = new Set(Array.from({ length: settings.count }, uid));
    const acknowledge = (finished: Finished) => {
      this.#bell.ring();
      return this.#acks.add(finished);
    };
    this.#held = new HeldJobs({ ...parts, acknowledge });
  }

  start(): void {
    this.#parts.onIdle?.(this.#idle.size);
    this.#loop = this.#run();
  }

  /** There may be a job: has a worker look for one, here or, if all are busy, in another thread. */
  wake(): void {
    this.#expect(1);
    if (this.#idle.size === 0) this.#parts.wakeOthers?.();
    this.#bell.ring();
  }

  /**
   * Takes no more jobs and waits for those under way; after `graceMs` gives back what is left.
   * Resolves when all workers are retired; never rejects.
   */
  async stop(graceMs: number): Promise<void> {
    const timer = setTimeout(() => this.#held.giveBack(), graceMs);
    this.#stopping.abort();
    this.#bell.ring();
    await this.#loop;
    clearTimeout(timer);
    // If that fails, a scrub forgets the workers later.
    await this.#parts.queue.retire([...this.#idle]).catch(() => {});
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    const ticker = setInterval(() => this.#tick(), this.#settings.tickMs);
    // Jobs under way still need their lease, and their outcome stored.
    while (!signal.aborted || this.#held.size > 0) {
      const isLooking = this.#readyJobs > 0 && !signal.aborted && this.#idle.size > 0;
      const waitMs = isLooking ? 0 : this.#acks.dueInMs(this.#held.size);
      if (waitMs === 0) await this.#call();
      else await this.#bell.wait(waitMs);
    }
    clearInterval(ticker);
  }

  #tick(): void {
    this.#askAll();
    this.#bell.ring();
    void this.#held.renewLeases();
  }

  async #call(): Promise<void> {
    const { queue, log, wakeOthers } = this.#parts;
    const acks = this.#acks.take();
    const finished = acks.map((ack) => ack.finished);
    const asking = this.#workersToAsk(finished);
    this.#readyJobs = 0;
    try {
      const acquired = await queue.acquire(asking, finished);
      if (this.#backoff.reset()) log.info('acquiring again');
      for (const [index, ack] of acquired.acks.entries()) acks[index]?.resolve(ack);
      for (const grant of acquired.grants) this.#begin(grant);
      this.#expect(acquired.left);
      if (this.#readyJobs > 0 && this.#idle.size === 0) wakeOthers?.();
    } catch (error) {
      this.#askAll();
      for (const { reject } of acks) reject(error);
      log.warn({ reason: reasonOf(error) }, 'cannot acquire; trying again');
      await this.#backoff.wait(this.#stopping.signal);
    }
  }

  /** Workers that this call makes idle; and, if there may be jobs for them, as many that are idle already. */
  #workersToAsk(finished: Finished[]): string[] {
    if (this.#stopping.signal.aborted) return [];
    const finishing = finished.map(({ grant }) => grant.worker);
    if (this.#readyJobs === 0) return finishing;
    const count = this.#allAsk ? this.#idle.size : this.#readyJobs;
    this.#allAsk = false;
    return [...finishing, ...this.#idle.values().take(count)];
  }

  #begin(grant: Grant): void {
    const { worker } = grant;
    this.#idle.delete(worker);
    this.#parts.onIdle?.(this.#idle.size);
    this.#held.begin(grant, ({ isIdle, inDoubt }) => {
      if (isIdle) this.#rest(worker);
      if (inDoubt) this.#askAll();
    });
  }

  #rest(worker: string): void {
    // While all workers were busy, nobody woke this thread.
    if (this.#idle.size === 0) this.#expect(1);
    this.#idle.add(worker);
    this.#parts.onIdle?.(this.#idle.size);
    this.#bell.ring();
  }

  #askAll(): void {
    this.#allAsk = true;
    this.#expect(1);
  }

  #expect(jobs: number): void {
    this.#readyJobs = Math.max(this.#readyJobs, jobs);
  }
}

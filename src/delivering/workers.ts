import { Backoff } from '../backoff.ts';
import { uid } from '../ids.ts';
import { AckGroup } from './ack_group.ts';
import { type AssignmentParts, reasonOf } from './assignment.ts';
import { Bell } from './bell.ts';
import type { Grant } from './grant.ts';
import { HeldJobs } from './held_jobs.ts';
import type { Finished } from './settlement.ts';

export interface WorkersParts extends Omit<AssignmentParts, 'acknowledge'> {
  /** Called with the number of idle workers, at the start and at every change. */
  onIdle?: (idle: number) => void;
  /** Called when a job may be ready and all these workers are busy. */
  wakeOthers?: () => void;
}

export interface WorkersSettings {
  count: number;
  /** Interval at which workers renew their leases, and look for jobs that no announcement reported. */
  tickMs: number;
}

/** Returns at most a third of the lease: a worker may miss two heartbeats before it counts as dead. */
export function tickMs(config: { acquireTimeoutMs: number; leaseMs: number }): number {
  return Math.min(config.acquireTimeoutMs, config.leaseMs / 3);
}

/**
 * The workers of one thread and queue. Each worker has an id and at most one pending job. One call at a time
 * acknowledges the jobs that finished since the last call, and acquires jobs for idle workers. Idle workers
 * sleep until `wake`.
 */
export class Workers {
  readonly #parts: WorkersParts;
  readonly #settings: WorkersSettings;
  readonly #idle: Set<string>;
  readonly #held: HeldJobs;
  readonly #acks = new AckGroup();
  readonly #bell = new Bell();
  readonly #backoff = new Backoff();
  /** Aborted when the workers must acquire no more jobs. */
  readonly #stopping = new AbortController();
  /** Number of jobs known to be ready, 1 if there may be some: so many idle workers ask for a job. */
  #readyJobs = 1;
  /**
   * True if all idle workers must ask with the next call: at a tick, since asking is their heartbeat, and
   * after a failed call, since it may have assigned them jobs. A worker that asks gets the job that it holds
   * again.
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

  /** Has an idle worker look for a job. Wakes other threads instead if all these workers are busy. */
  wake(): void {
    this.#expect(1);
    if (this.#idle.size === 0) this.#parts.wakeOthers?.();
    this.#bell.ring();
  }

  /**
   * Acquires no more jobs and waits for those under way; after `graceMs` gives back the rest.
   * Resolves when all workers are retired; never rejects.
   */
  async stop(graceMs: number): Promise<void> {
    const timer = setTimeout(() => this.#held.giveBack(), graceMs);
    this.#stopping.abort();
    this.#bell.ring();
    await this.#loop;
    clearTimeout(timer);
    // An error is ignored: a scrub forgets the workers later.
    await this.#parts.queue.retire([...this.#idle]).catch(() => {});
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    const ticker = setInterval(() => this.#tick(), this.#settings.tickMs);
    // While jobs are under way, their leases must be renewed and their outcomes reported.
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

  /** Returns the workers of the finished jobs and, if jobs may be ready, one idle worker for each. */
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
    // The supervisor does not wake a thread whose workers are all busy, so jobs may have been announced
    // meanwhile.
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

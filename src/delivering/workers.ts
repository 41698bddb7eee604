import { Backoff } from '../backoff.ts';
import type { Config } from '../config.ts';
import { failureOf } from '../log.ts';
import { AckGroup } from './ack_group.ts';
import { Assignment, type AssignmentParts } from './assignment.ts';
import { Bell } from './bell.ts';
import type { Grant } from './grant.ts';
import type { Finished } from './settlement.ts';

export interface WorkersParts extends Omit<AssignmentParts, 'acknowledge'> {
  /** Called with the number of idle workers: when the workers start, and whenever this number changes. */
  onIdle?: (idle: number) => void;
  /**
   * Says whether workers may ask now for a job that seems to be ready. Spare workers may do so only while all regular
   * workers are busy. At the start, at some ticks (see `ticksPerAsk`) and after errors, all workers ask in any case.
   */
  mayAsk?: () => boolean;
  /** Called when a job may be ready, but all workers of this object are busy. */
  wakeOthers?: () => void;
}

interface WorkersSettings {
  ids: readonly string[];
  /** Time between two ticks. At each tick, busy workers renew their leases. */
  tickMs: number;
  /**
   * Idle workers ask for jobs whenever this many ticks have passed; 1 by default. Asking shows that the workers are
   * alive, and finds ready jobs for which `wake` was not called.
   */
  ticksPerAsk?: number;
}

/**
 * Returns the time between two ticks. Workers renew their leases at each tick. The time is at most a third of a lease,
 * so that a worker that misses two ticks keeps its lease.
 */
export function tickMs({ acquireTimeoutMs, leaseMs }: Pick<Config, 'acquireTimeoutMs' | 'leaseMs'>): number {
  return Math.min(acquireTimeoutMs, leaseMs / 3);
}

/**
 * The workers of one thread that take jobs from one queue. One script call (`acquire`) at a time acknowledges finished
 * jobs and acquires jobs for idle workers. Without jobs, idle workers sleep until `wake` is called.
 */
export class Workers {
  readonly #parts: WorkersParts & AssignmentParts;
  readonly #settings: WorkersSettings;
  readonly #idle: Set<string>;
  /** The job that each busy worker runs. */
  readonly #held = new Map<string, Assignment>();
  /** True once `stop` gives jobs back to the queue. Jobs that begin later are given back too. */
  #givingBack = false;
  readonly #acks = new AckGroup();
  readonly #bell = new Bell();
  readonly #backoff = new Backoff();
  readonly #stopping = new AbortController();
  /** An estimate of how many jobs are ready in Redis. In the next script call, this many idle workers ask for a job. */
  #readyJobs = 1;
  /**
   * True if all idle workers must ask for a job in the next script call: at a tick, to show that they are alive, or
   * after a failed call. Redis may have assigned jobs in the failed call, and workers get such jobs by asking again.
   */
  #allAsk = true;
  #loop: Promise<void> | undefined;

  constructor(parts: WorkersParts, settings: WorkersSettings) {
    const acknowledge = (finished: Finished) => {
      this.#bell.ring();
      return this.#acks.add(finished);
    };
    this.#parts = { ...parts, acknowledge };
    this.#settings = settings;
    this.#idle = new Set(settings.ids);
  }

  /** Number of idle workers. */
  get idle(): number {
    return this.#idle.size;
  }

  start(): void {
    this.#parts.onIdle?.(this.#idle.size);
    this.#loop = this.#run();
  }

  /** Called when a job may be ready. An idle worker asks for it; if all workers are busy, `wakeOthers` is called. */
  wake(): void {
    this.#readyJobs ||= 1;
    if (this.#idle.size === 0) this.#parts.wakeOthers?.();
    this.#bell.ring();
  }

  /** Finishes the jobs under way. Jobs that take longer than `graceMs` are given back to the queue. Never rejects. */
  async stop(graceMs: number): Promise<void> {
    const timer = setTimeout(() => this.#giveBack(), graceMs);
    this.#stopping.abort();
    this.#bell.ring();
    await this.#loop;
    clearTimeout(timer);
    // Errors are ignored, because the periodic job `scrub` removes workers that show no sign of life.
    await this.#parts.queue.retire([...this.#idle]).catch(() => {});
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    let ticks = 0;
    const ticker = setInterval(() => {
      if (++ticks % (this.#settings.ticksPerAsk ?? 1) === 0) {
        this.#askAll();
        this.#bell.ring();
      }
      void this.#renewLeases();
    }, this.#settings.tickMs);
    while (!signal.aborted || this.#held.size > 0) {
      const mustAsk = this.#readyJobs > 0 && !signal.aborted && this.#idle.size > 0 && this.#mayAsk();
      const waitMs = mustAsk ? 0 : this.#acks.dueInMs(this.#held.size);
      if (waitMs === 0) await this.#call();
      else await this.#bell.wait(waitMs);
    }
    clearInterval(ticker);
  }

  async #call(): Promise<void> {
    const { queue, log, wakeOthers } = this.#parts;
    const acks = this.#acks.take();
    const finished = acks.map((ack) => ack.finished);
    const asking = this.#askingWorkers(finished);
    this.#readyJobs = 0;
    try {
      const acquired = await queue.acquire(asking, finished);
      this.#backoff.reset();
      for (const [index, ack] of acquired.acks.entries()) acks[index]?.resolve(ack);
      for (const grant of acquired.grants) this.#begin(grant);
      this.#readyJobs = Math.max(this.#readyJobs, acquired.readyJobs);
      if (this.#readyJobs > 0 && this.#idle.size === 0) wakeOthers?.();
    } catch (error) {
      this.#askAll();
      for (const { reject } of acks) reject(error);
      log.warn(failureOf(error), 'cannot acquire; trying again');
      await this.#backoff.wait(this.#stopping.signal);
    }
  }

  #mayAsk(): boolean {
    return this.#allAsk || (this.#parts.mayAsk?.() ?? true);
  }

  /**
   * Returns the workers that ask for a job in the next script call: those that have just finished a job, and
   * `#readyJobs` idle workers (all of them if `#allAsk` is true). Returns none while this object stops, or if `mayAsk`
   * forbids it.
   */
  #askingWorkers(finished: Finished[]): string[] {
    if (this.#stopping.signal.aborted || !this.#mayAsk()) return [];
    const finishing = finished.map(({ grant }) => grant.worker);
    if (this.#readyJobs === 0) return finishing;
    const max = this.#allAsk ? this.#idle.size : this.#readyJobs;
    this.#allAsk = false;
    return [...finishing, ...this.#idle.values().take(max)];
  }

  #begin(grant: Grant): void {
    this.#idle.delete(grant.worker);
    this.#parts.onIdle?.(this.#idle.size);
    const assignment = new Assignment(grant, this.#parts);
    this.#held.set(grant.worker, assignment);
    if (this.#givingBack) assignment.abort();
    void assignment.run().then(() => this.#ended(assignment));
  }

  #ended(assignment: Assignment): void {
    const { worker } = assignment.grant;
    if (assignment.inDoubt) this.#askAll();
    // The call that reported the outcome may have brought the worker its next job. Then the worker is not idle.
    if (this.#held.get(worker) !== assignment) return;
    this.#held.delete(worker);
    // While all workers were busy, a job may have become ready without a call of `wake`. So this worker asks Redis for
    // one.
    if (this.#idle.size === 0) this.#readyJobs ||= 1;
    this.#idle.add(worker);
    this.#parts.onIdle?.(this.#idle.size);
    this.#bell.ring();
  }

  /** Aborts all jobs, so that they are given back to the queue. */
  #giveBack(): void {
    this.#givingBack = true;
    for (const assignment of this.#held.values()) assignment.abort();
  }

  /**
   * Renews the leases of all jobs, and aborts the jobs whose lease has run out. Never rejects. If Redis fails, the next
   * tick renews the leases. That is early enough, because a lease lasts three ticks or more.
   */
  async #renewLeases(): Promise<void> {
    if (this.#held.size === 0) return;
    const { queue, log } = this.#parts;
    const held = [...this.#held.values()];
    try {
      const lost = new Set(await queue.heartbeat(held.map(({ grant }) => grant)));
      for (const assignment of held) if (lost.has(assignment.grant.worker)) assignment.loseLease();
    } catch (error) {
      log.warn(failureOf(error), 'a heartbeat failed');
    }
  }

  #askAll(): void {
    this.#allAsk = true;
    this.#readyJobs ||= 1;
  }
}

import { uid } from '../ids.ts';
import { type Grant, heartbeat } from '../models/queue.ts';
import type { Store } from '../redis/store.ts';
import type { Wakeups } from '../redis/wakeups.ts';
import { Assignment, type AssignmentParts, reasonOf } from './assignment.ts';
import { Bell } from './bell.ts';
import { Patience } from './patience.ts';

export interface WorkersParts extends AssignmentParts {
  store: Store;
  wakeups: Wakeups;
}

export interface WorkersSettings {
  /** How many workers. */
  count: number;
  /** How often idle workers look for jobs though nobody woke them, and all say that they are alive. */
  tickMs: number;
}

/** A third of the lease at most: two heartbeats may be lost before anybody takes a worker for dead. */
export function tickMs(config: { acquireTimeoutMs: number; leaseMs: number }): number {
  return Math.min(config.acquireTimeoutMs, config.leaseMs / 3);
}

/**
 * The workers of one thread and queue: each has an id and at most one pending job. One call acquires for all that are
 * idle; they sleep until a script announces an instant job.
 */
export class Workers {
  readonly #parts: WorkersParts;
  readonly #settings: WorkersSettings;
  readonly #idle: string[];
  readonly #busy = new Map<string, Promise<void>>();
  readonly #bell = new Bell();
  readonly #patience = new Patience();
  /** Aborted when no more jobs are to be taken. */
  readonly #stopping = new AbortController();
  /** Aborted when jobs under way are to be given back. */
  readonly #givingUp = new AbortController();
  /** There may be instant jobs: somebody said so, or the last call left some. */
  #expectant = true;
  #loop: Promise<void> | undefined;

  constructor(parts: WorkersParts, settings: WorkersSettings) {
    this.#parts = parts;
    this.#settings = settings;
    this.#idle = Array.from({ length: settings.count }, uid);
  }

  start(): void {
    this.#loop = this.#run();
  }

  /**
   * Takes no more jobs and waits for those under way; after `graceMs` gives back what is left.
   * Resolves when all workers are retired; never rejects.
   */
  async stop(graceMs: number): Promise<void> {
    const timer = setTimeout(() => this.#givingUp.abort(), graceMs);
    this.#stopping.abort();
    this.#bell.ring();
    await this.#loop;
    clearTimeout(timer);
    this.#givingUp.abort();
    // What cannot be retired now is scrubbed later.
    await this.#parts.queue.retire(this.#idle).catch(() => {});
  }

  async #run(): Promise<void> {
    const { queue, wakeups } = this.#parts;
    const look = () => {
      this.#expectant = true;
      this.#bell.ring();
    };
    const forget = wakeups.on(queue.name, look);
    const beat = setInterval(() => {
      look();
      this.#sayAlive();
    }, this.#settings.tickMs);
    while (!this.#stopping.signal.aborted) {
      if (this.#expectant && this.#idle.length > 0) await this.#acquire();
      else await this.#bell.wait();
    }
    forget();
    // Jobs under way still need their lease.
    await Promise.all(this.#busy.values());
    clearInterval(beat);
  }

  async #acquire(): Promise<void> {
    const { queue, log } = this.#parts;
    this.#expectant = false;
    try {
      const { grants, left } = await queue.acquire(this.#idle);
      if (left > 0) this.#expectant = true;
      if (this.#patience.reset()) log.info('acquiring again');
      for (const grant of grants) this.#begin(grant);
    } catch (error) {
      this.#expectant = true;
      log.warn({ reason: reasonOf(error) }, 'cannot acquire; trying again');
      await this.#patience.wait(this.#stopping.signal);
    }
  }

  #begin(grant: Grant): void {
    this.#idle.splice(this.#idle.indexOf(grant.worker), 1);
    const assignment = new Assignment(grant, this.#parts, this.#givingUp.signal);
    const work = assignment.run().then((left) => {
      if (left > 0) this.#expectant = true;
      this.#busy.delete(grant.worker);
      this.#idle.push(grant.worker);
      this.#bell.ring();
    });
    this.#busy.set(grant.worker, work);
  }

  /** Idle workers say so when they acquire. A heartbeat that fails is no error: the next one may not. */
  #sayAlive(): void {
    if (this.#busy.size === 0) return;
    heartbeat(this.#parts.store, [...this.#busy.keys()]).catch((error: unknown) => {
      this.#parts.log.warn({ reason: reasonOf(error) }, 'a heartbeat failed');
    });
  }
}

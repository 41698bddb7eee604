import { Assignment, type AssignmentParts, reasonOf } from './assignment.ts';
import type { Grant } from './grant.ts';

/** The state of a worker after a job. */
export interface Ended {
  /** False if the call that reported the outcome has assigned the worker its next job. */
  isIdle: boolean;
  /** True if a call failed that may have assigned the worker a job. */
  inDoubt: boolean;
}

/** The jobs that the workers of one thread hold. */
export class HeldJobs {
  readonly #parts: AssignmentParts;
  readonly #assignments = new Map<string, Assignment>();
  #givingBack = false;

  constructor(parts: AssignmentParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#assignments.size;
  }

  /** Runs a job, and calls `ended` once Redis has the outcome. */
  begin(grant: Grant, ended: (how: Ended) => void): void {
    const assignment = new Assignment(grant, this.#parts);
    this.#assignments.set(grant.worker, assignment);
    if (this.#givingBack) assignment.abort();
    void assignment.run().then(() => {
      const isIdle = this.#assignments.get(grant.worker) === assignment;
      if (isIdle) this.#assignments.delete(grant.worker);
      ended({ isIdle, inDoubt: assignment.inDoubt });
    });
  }

  /** Aborts all jobs, and each that begins later, so that they are given back. */
  giveBack(): void {
    this.#givingBack = true;
    for (const assignment of this.#assignments.values()) assignment.abort();
  }

  /** Renews the leases; aborts jobs whose lease has run out. The next tick repeats a call that failed. */
  async renewLeases(): Promise<void> {
    if (this.size === 0) return;
    const { queue, log } = this.#parts;
    const held = [...this.#assignments.values()];
    try {
      const lost = new Set(await queue.heartbeat(held.map(({ grant }) => grant)));
      for (const assignment of held) if (lost.has(assignment.grant.worker)) assignment.loseLease();
    } catch (error) {
      log.warn({ reason: reasonOf(error) }, 'a heartbeat failed');
    }
  }
}

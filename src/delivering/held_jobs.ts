import { failureOf } from '../log.ts';
import { Assignment, type AssignmentParts } from './assignment.ts';
import type { Grant } from './grant.ts';

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

  /**
   * Runs a job, and then calls `ended`. `isIdle` is false if the worker already runs its next job, which came with
   * Redis's reply to the outcome of this one. `inDoubt` is true if such a reply was lost, so that Redis may have
   * assigned a job of which the worker does not know.
   */
  begin(grant: Grant, ended: (isIdle: boolean, inDoubt: boolean) => void): void {
    const assignment = new Assignment(grant, this.#parts);
    this.#assignments.set(grant.worker, assignment);
    if (this.#givingBack) assignment.abort();
    void assignment.run().then(() => {
      const isIdle = this.#assignments.get(grant.worker) === assignment;
      if (isIdle) this.#assignments.delete(grant.worker);
      ended(isIdle, assignment.inDoubt);
    });
  }

  /** Aborts all jobs, so that they are given back to the queue. Jobs that begin later are aborted too. */
  giveBack(): void {
    this.#givingBack = true;
    for (const assignment of this.#assignments.values()) assignment.abort();
  }

  /**
   * Renews the leases of all jobs, and aborts the jobs whose lease has run out. Never rejects. If Redis fails, the next
   * heartbeat tries again: heartbeats come at least three times in a lease, so one comes before the leases run out.
   */
  async renewLeases(): Promise<void> {
    if (this.size === 0) return;
    const { queue, log } = this.#parts;
    const held = [...this.#assignments.values()];
    try {
      const lost = new Set(await queue.heartbeat(held.map(({ grant }) => grant)));
      for (const assignment of held) if (lost.has(assignment.grant.worker)) assignment.loseLease();
    } catch (error) {
      log.warn(failureOf(error), 'a heartbeat failed');
    }
  }
}

import { Assignment, type AssignmentParts, reasonOf } from './assignment.ts';
import type { Grant } from './grant.ts';

/** How a job ended. */
export interface Ended {
  /** False if the call that stored the outcome has given the worker its next job. */
  isIdle: boolean;
  /** Whether Redis may have given the worker another job by a call that failed. */
  inDoubt: boolean;
}

/** The jobs that the workers of a thread hold. */
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

  /** Runs a job, and calls `ended` when Redis has its outcome. */
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

  /** Asks all jobs to end, and those that begin from now on, and gives them back. */
  giveBack(): void {
    this.#givingBack = true;
    for (const assignment of this.#assignments.values()) assignment.abort();
  }

  /** Renews the leases, and ends the jobs of those that are lost. A failure is no error: the next tick repeats it. */
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

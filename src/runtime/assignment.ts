import { StorageUnavailable } from '../errors.ts';
import { GIVEN_BACK, type JobHandler, type Settlement } from '../jobs/job_handler.ts';
import type { Log } from '../log.ts';
import type { Grant, Queue } from '../models/queue.ts';
import { Patience } from './patience.ts';

/** A job whose handler threw is run again after this long. */
const FAILED_JOB_RETRY: Settlement = { done: false, retry: { delayMs: 30_000, damage: 0, throttleMs: 0 } };
/** One that only lost Redis has not failed, and a scrub or an autodrop must not wait: no other can be put meanwhile. */
const LOST_REDIS_RETRY: Settlement = { done: false, retry: { delayMs: 1000, damage: 0, throttleMs: 0 } };

export interface AssignmentParts {
  queue: Queue;
  handler: JobHandler;
  /** Told how many events left the queue of a subscriber with a batch that was acknowledged. */
  removed: (token: string, events: number) => void;
  log: Log;
}

/** A job in a worker's hands: it is run, and its outcome brought home. */
export class Assignment {
  readonly #grant: Grant;
  readonly #parts: AssignmentParts;
  readonly #givingUp: AbortSignal;
  /** An earlier call may have been applied though it failed: its reply was lost. */
  #inDoubt = false;

  /** `givingUp` is aborted when jobs under way are to be given back. */
  constructor(grant: Grant, parts: AssignmentParts, givingUp: AbortSignal) {
    this.#grant = grant;
    this.#parts = parts;
    this.#givingUp = givingUp;
  }

  /** Resolves when Redis has the outcome, with how many instant jobs it has left; never rejects. */
  async run(): Promise<number> {
    const settlement = await this.#handle();
    const patience = new Patience();
    // While Redis is away the outcome is kept: forgetting a delivery that succeeded would repeat it.
    for (;;) {
      const left = await this.#settle(settlement);
      if (left !== undefined) return left;
      if (this.#givingUp.aborted) break;
      await patience.wait(this.#givingUp);
    }
    const { job } = this.#grant;
    this.#parts.log.error({ job }, 'stopped before Redis took the outcome; the job will run again');
    return 0;
  }

  async #handle(): Promise<Settlement> {
    if (this.#givingUp.aborted) return GIVEN_BACK;
    const { job } = this.#grant;
    try {
      return await this.#parts.handler(this.#grant, this.#givingUp);
    } catch (error) {
      if (error instanceof StorageUnavailable) {
        this.#parts.log.warn({ job }, 'Redis went away under a job; it will run again');
        return LOST_REDIS_RETRY;
      }
      this.#parts.log.error({ err: error, job }, 'a job failed; it will run again');
      return FAILED_JOB_RETRY;
    }
  }

  /** Undefined while Redis does not take the outcome. That somebody else has the job by now is an end too. */
  async #settle(settlement: Settlement): Promise<number | undefined> {
    try {
      return await (settlement.done ? this.#ack(settlement.heal) : this.#nack(settlement));
    } catch (error) {
      this.#inDoubt = true;
      const what = { reason: reasonOf(error), job: this.#grant.job };
      this.#parts.log.warn(what, 'Redis did not take the outcome of a job; trying again');
      return undefined;
    }
  }

  async #ack(heal: number): Promise<number> {
    const { queue, removed, log } = this.#parts;
    const { batch, job } = this.#grant;
    const ack = await queue.ack(this.#grant, heal);
    if (!ack.held && !this.#inDoubt) log.warn({ job }, 'the lease ran out before the job was done');
    const events = ack.held ? ack.removed : this.#inDoubt ? (batch?.events.length ?? 0) : 0;
    if (batch && events > 0) removed(batch.token, events);
    return ack.left;
  }

  async #nack({ retry }: Extract<Settlement, { done: false }>): Promise<number> {
    const held = await this.#parts.queue.nack(this.#grant, retry);
    if (!held && !this.#inDoubt)
      this.#parts.log.warn({ job: this.#grant.job }, 'the lease ran out before the job was given back');
    return 0;
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

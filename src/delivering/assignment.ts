import { Backoff } from '../backoff.ts';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Grant } from './grant.ts';
import { DONE, GIVEN_BACK, type JobHandler, type Settlement } from './job_handler.ts';
import type { Queue } from './queue.ts';
import type { Acknowledged, Burial, Finished, Success } from './settlement.ts';

/** A job under which Redis failed is not to blame. It runs again soon: while it waits, no other of its name can be put. */
const LOST_REDIS_RETRY: Settlement = { end: 'retry', retry: { delayMs: 1000, damage: 0, throttleMs: 0 } };

/** Counts what became of the batches that workers held. */
export interface AssignmentFigures {
  /** A subscriber's queue lost events, with a batch that was delivered or buried. */
  removed(token: string, events: number): void;
  /** A batch became a dead letter. */
  buried(token: string, reason: string, events: number): void;
}

export interface AssignmentParts {
  queue: Queue;
  /** Acknowledges a job by a call that others share. Rejects if that failed; Redis may have applied it all the same. */
  acknowledge: (finished: Finished) => Promise<Acknowledged>;
  handler: JobHandler;
  figures: AssignmentFigures;
  log: Log;
}

/** A job that a worker holds: runs it, and has Redis store its outcome. */
export class Assignment {
  readonly grant: Grant;
  readonly #parts: AssignmentParts;
  readonly #ending = new AbortController();
  #running = true;
  #lost = false;
  #inDoubt = false;

  constructor(grant: Grant, parts: AssignmentParts) {
    this.grant = grant;
    this.#parts = parts;
  }

  /** Whether a call failed that Redis may have applied: the worker may hold another job by now, and must ask for jobs. */
  get inDoubt(): boolean {
    return this.#inDoubt;
  }

  /** Resolves when Redis has the outcome, or the job is aborted while Redis does not answer; never rejects. */
  async run(): Promise<void> {
    const settlement = await this.#handle();
    this.#running = false;
    if (this.#lost) return;
    const backoff = new Backoff();
    // The outcome is kept while Redis is away: to forget a delivery that succeeded would be to repeat it.
    for (;;) {
      if (await this.#settle(settlement)) return;
      if (this.#ending.signal.aborted) break;
      await backoff.wait(this.#ending.signal);
    }
    this.#parts.log.error(
      { job: this.grant.job },
      'stopped before Redis took the outcome; the job will run again',
    );
  }

  /** Asks the job to end, and gives it back. */
  abort(): void {
    this.#ending.abort();
  }

  /** Ends the job: another worker has it, or will. Does nothing once it has run: storing its outcome fails then. */
  loseLease(): void {
    if (!this.#running || this.#lost) return;
    this.#lost = true;
    this.#warnOfLostLease();
    this.#ending.abort();
  }

  async #handle(): Promise<Settlement> {
    const { signal } = this.#ending;
    if (signal.aborted) return GIVEN_BACK;
    const { job, batch } = this.grant;
    const { log } = this.#parts;
    try {
      return await this.#parts.handler(this.grant, signal);
    } catch (error) {
      if (error instanceof StorageUnavailable || error instanceof StorageFull) {
        log.warn({ job, reason: error.message }, 'Redis failed under a job; it will run again');
        return LOST_REDIS_RETRY;
      }
      if (batch) {
        log.error({ err: error, job }, 'a job failed; its batch is a dead letter now');
        return this.#poisoned(error);
      }
      log.error({ err: error, job }, 'a job failed; the next tick will put it again');
      return DONE;
    }
  }

  /** The subscriber is not to blame: its health stays as it is. */
  #poisoned(error: unknown): Settlement {
    const attempt = { atMs: this.grant.atMs, durationMs: 0, reason: reasonOf(error) };
    return { end: 'dead', burial: { reason: 'failed_in_bus', attempt, damage: 0, throttleMs: 0 } };
  }

  /** False if the call failed. It is no error if another worker has the job by now. */
  async #settle(settlement: Settlement): Promise<boolean> {
    try {
      const held = await this.#store(settlement);
      if (!held && !this.#inDoubt) this.#warnOfLostLease();
      return true;
    } catch (error) {
      this.#inDoubt = true;
      const what = { reason: reasonOf(error), job: this.grant.job };
      this.#parts.log.warn(what, 'Redis did not take the outcome of a job; trying again');
      return false;
    }
  }

  /** False if the worker did not hold the job any more. */
  #store(settlement: Settlement): Promise<boolean> {
    if (settlement.end === 'done') return this.#ack(settlement.success);
    if (settlement.end === 'dead') return this.#bury(settlement.burial);
    return this.#parts.queue.nack(this.grant, settlement.retry);
  }

  /** Acks by a call that others share; after a failure alone, so that one bad ack cannot block the others. */
  async #ack(success: Success): Promise<boolean> {
    const { queue, acknowledge, figures } = this.#parts;
    const finished: Finished = { grant: this.grant, ...success };
    const { held, removed } = await (this.#inDoubt ? queue.ack(finished) : acknowledge(finished));
    const { batch } = this.grant;
    // An ack that is in doubt and finds no lease: an earlier one was applied.
    const events = !held && this.#inDoubt ? (batch?.count ?? 0) : removed;
    if (batch && events > 0) figures.removed(batch.token, events);
    return held;
  }

  async #bury(burial: Burial): Promise<boolean> {
    const { queue, figures } = this.#parts;
    const { batch } = this.grant;
    const { held, buried } = await queue.bury(this.grant, burial);
    if (batch && buried > 0) {
      figures.removed(batch.token, buried);
      figures.buried(batch.token, burial.reason, buried);
    }
    return held;
  }

  #warnOfLostLease(): void {
    const { worker, job } = this.grant;
    this.#parts.log.warn(
      { worker, job },
      'the lease ran out before the job was done; its outcome does not count',
    );
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

import { Patience } from '../backoff.ts';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Grant } from './grant.ts';
import type { Queue } from './queue.ts';
import {
  type Acknowledged,
  type Burial,
  DONE,
  type Finished,
  GIVEN_BACK,
  type JobHandler,
  type Settlement,
  type Success,
} from './settlement.ts';

/** A job that only lost Redis has not failed, and a scrub or an autodrop must not wait: no other can be put meanwhile. */
const LOST_REDIS_RETRY: Settlement = { end: 'retry', retry: { delayMs: 1000, damage: 0, throttleMs: 0 } };

/** Told what became of the batches in a worker's hands. */
export interface AssignmentFigures {
  /** Events left the queue of a subscriber with a batch that was acknowledged. */
  removed(token: string, events: number): void;
  /** A batch became a dead letter. */
  buried(token: string, reason: string, events: number): void;
}

export interface AssignmentParts {
  queue: Queue;
  /** Acknowledges a job together with what else the thread has to say. Rejects where it may not have been. */
  acknowledge: (finished: Finished) => Promise<Acknowledged>;
  handler: JobHandler;
  figures: AssignmentFigures;
  log: Log;
}

/** A job in a worker's hands: it is run, and its outcome brought home. */
export class Assignment {
  readonly grant: Grant;
  readonly #parts: AssignmentParts;
  readonly #ending = new AbortController();
  #running = true;
  #lost = false;
  /** An earlier call may have been applied though it failed: its reply was lost. */
  #inDoubt = false;

  constructor(grant: Grant, parts: AssignmentParts) {
    this.grant = grant;
    this.#parts = parts;
  }

  /** Resolves when Redis has the outcome, with how many jobs it has ready; never rejects. */
  async run(): Promise<number> {
    const settlement = await this.#handle();
    this.#running = false;
    if (this.#lost) return 0;
    const patience = new Patience();
    // While Redis is away the outcome is kept: forgetting a delivery that succeeded would repeat it.
    for (;;) {
      const left = await this.#settle(settlement);
      if (left !== undefined) return left;
      if (this.#ending.signal.aborted) break;
      await patience.wait(this.#ending.signal);
    }
    this.#parts.log.error(
      { job: this.grant.job },
      'stopped before Redis took the outcome; the job will run again',
    );
    return 0;
  }

  /** Asks the job to end, and gives it back. */
  giveUp(): void {
    this.#ending.abort();
  }

  /** The lease is lost: somebody else has the job, or will. One that waits for Redis to take its outcome hears it there. */
  lose(): void {
    if (!this.#running || this.#lost) return;
    this.#lost = true;
    this.#warnOfLoss();
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

  /** The subscriber is not to blame. */
  #poisoned(error: unknown): Settlement {
    const attempt = { atMs: this.grant.atMs, durationMs: 0, reason: reasonOf(error) };
    return { end: 'dead', burial: { reason: 'failed_in_bus', attempt, damage: 0, throttleMs: 0 } };
  }

  /** Undefined while Redis does not take the outcome. That somebody else has the job by now is an end too. */
  async #settle(settlement: Settlement): Promise<number | undefined> {
    try {
      switch (settlement.end) {
        case 'done':
          return await this.#ack(settlement.success);
        case 'retry':
          return this.#told(await this.#parts.queue.nack(this.grant, settlement.retry));
        case 'dead':
          return await this.#bury(settlement.burial);
      }
    } catch (error) {
      this.#inDoubt = true;
      const what = { reason: reasonOf(error), job: this.grant.job };
      this.#parts.log.warn(what, 'Redis did not take the outcome of a job; trying again');
      return undefined;
    }
  }

  /** At first with others, then alone: what they failed of is nothing to this one. */
  async #ack(success: Success): Promise<number> {
    const { queue, acknowledge, figures } = this.#parts;
    const finished: Finished = { grant: this.grant, ...success };
    const alone = this.#inDoubt && (await queue.ack(finished));
    const ack = alone || (await acknowledge(finished));
    this.#told(ack.held);
    const { batch } = this.grant;
    const events = ack.held ? ack.removed : this.#inDoubt ? (batch?.count ?? 0) : 0;
    if (batch && events > 0) figures.removed(batch.token, events);
    return alone ? alone.left : 0;
  }

  async #bury(burial: Burial): Promise<number> {
    const { queue, figures } = this.#parts;
    const { batch } = this.grant;
    const { held, buried } = await queue.bury(this.grant, burial);
    if (batch && buried > 0) {
      figures.removed(batch.token, buried);
      figures.buried(batch.token, burial.reason, buried);
    }
    return this.#told(held);
  }

  /** Nobody needs to look for jobs after it. */
  #told(held: boolean): 0 {
    if (!held && !this.#inDoubt) this.#warnOfLoss();
    return 0;
  }

  #warnOfLoss(): void {
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

import { Backoff } from '../backoff.ts';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import { failureOf, type Log, reasonOf } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Job } from '../store/job.ts';
import { withoutToken } from './dead_letters/bulks.ts';
import type { Grant } from './grant.ts';
import type { Queue } from './queue.ts';
import type { Acknowledged, Burial, Finished, JobHandler, Settlement, Success } from './settlement.ts';
import { DONE, GIVEN_BACK, type Retry, triedAgainIn } from './settlement.ts';

/**
 * If Redis fails while a job runs, the job runs again after a second. A longer delay would hold up periodic jobs: while
 * such a job waits in the queue, its ticker cannot queue it again.
 */
const LOST_REDIS_RETRY = triedAgainIn(1000);

export interface AssignmentParts {
  queue: Queue;
  /**
   * Acknowledges a job, in one script call with other finished jobs. Even if this rejects, Redis may have acknowledged
   * the job.
   */
  acknowledge: (finished: Finished) => Promise<Acknowledged>;
  handler: JobHandler;
  recorder: Pick<Recorder, 'removed' | 'buried'>;
  log: Log;
}

/** What Redis has answered to the report of an outcome. */
interface Stored {
  /** False if the worker did not hold the job any more. */
  held: boolean;
  /** Reports the stored outcome to the counters, the log and the audit. */
  note?: () => void;
}

/** Runs one acquired job. Reports its outcome (ack, nack or bury) to Redis until the report succeeds. */
export class Assignment {
  readonly grant: Grant;
  /**
   * True if a report of the outcome to Redis has failed. Perhaps only the reply was lost: Redis may have stored the
   * outcome and assigned the worker its next job. So the worker must ask Redis whether it holds a job.
   */
  inDoubt = false;
  readonly #parts: AssignmentParts;
  readonly #ending = new AbortController();
  /** The job as log lines show it. */
  readonly #shown: Job | undefined;
  #running = true;
  #lost = false;

  constructor(grant: Grant, parts: AssignmentParts) {
    this.grant = grant;
    this.#parts = parts;
    this.#shown = grant.job && withoutToken(grant.job);
  }

  /**
   * Resolves when Redis has stored the outcome. If the job is aborted, resolves even if Redis is away. Never rejects.
   */
  async run(): Promise<void> {
    const { log } = this.#parts;
    const settlement = await this.#handle();
    this.#running = false;
    // If a heartbeat has found the lease gone (`#lost`), another worker may run the job, so the outcome is not
    // reported. The exception is `settled`: the handler itself has stored the outcome in Redis, and that has ended the
    // lease.
    if (this.#lost && settlement.end !== 'settled') return this.#warnOfLostLease();
    const backoff = new Backoff();
    // The report is repeated until Redis takes it. Otherwise a delivered batch would be delivered again.
    while (!(await this.#settle(settlement))) {
      if (this.#ending.signal.aborted) {
        log.error({ job: this.#shown }, 'stopped before Redis took the outcome; the job will run again');
        return;
      }
      await backoff.wait(this.#ending.signal);
    }
  }

  /** Asks the job to end soon. A job that has not begun goes back into the queue, and the attempt is not counted. */
  abort(): void {
    this.#ending.abort();
  }

  /** Aborts the job and drops its outcome, because another worker may have the job. No effect if the job has ended. */
  loseLease(): void {
    if (!this.#running || this.#lost) return;
    this.#lost = true;
    this.#ending.abort();
  }

  async #handle(): Promise<Settlement> {
    const { signal } = this.#ending;
    if (signal.aborted) return GIVEN_BACK;
    const { batch, atMs } = this.grant;
    const { log } = this.#parts;
    const job = this.#shown;
    try {
      return await this.#parts.handler(this.grant, signal);
    } catch (error) {
      if (error instanceof StorageUnavailable || error instanceof StorageFull) {
        log.warn({ job, ...failureOf(error) }, 'Redis failed under a job; it will run again');
        return LOST_REDIS_RETRY;
      }
      if (!batch) {
        log.error({ err: error, job }, 'a job failed; the next tick will put it again');
        return DONE;
      }
      const attempt = { atMs, durationMs: 0, reason: reasonOf(error) };
      const onEnd = (isDropped: boolean) =>
        log.error(
          { err: error, job },
          isDropped
            ? 'a job failed; its batch was dropped, as its subscriber has unsubscribed'
            : 'a job failed; its batch is a dead letter now',
        );
      // The subscriber loses no health points, because the error is the bus's fault.
      return { end: 'dead', burial: { reason: 'failed_in_bus', attempt, damage: 0, throttleMs: 0, onEnd } };
    }
  }

  /** Tries once to report the outcome to Redis. Returns false if Redis failed, so that the report must be repeated. */
  async #settle(settlement: Settlement): Promise<boolean> {
    try {
      const { held, note } = await this.#store(settlement);
      // If `held` is false, the worker did not hold the job any more. But if the reply to an earlier call was lost
      // (`inDoubt`), that call has probably stored the outcome, and ended the lease. Then `note` reports the outcome to
      // the counters and the log.
      if (held || this.inDoubt) note?.();
      else this.#warnOfLostLease();
      return true;
    } catch (error) {
      this.inDoubt = true;
      const about = { ...failureOf(error), job: this.#shown };
      this.#parts.log.warn(about, 'Redis did not take the outcome of a job; trying again');
      return false;
    }
  }

  /** Stores the outcome in Redis, unless the handler has done so. */
  async #store(settlement: Settlement): Promise<Stored> {
    if (settlement.end === 'settled') return settlement;
    if (settlement.end === 'done') return this.#ack(settlement.success);
    if (settlement.end === 'dead') return this.#bury(settlement.burial);
    return this.#nack(settlement.retry);
  }

  async #nack(retry: Retry): Promise<Stored> {
    const { held, paused } = await this.#parts.queue.nack(this.grant, retry);
    return { held, note: () => paused && retry.onPaused?.() };
  }

  /**
   * Acknowledges the job in one script call with other finished jobs. If this call fails, the job is acknowledged in a
   * call of its own. Otherwise a single bad job could make the acks of other jobs fail again and again.
   */
  async #ack(success: Success): Promise<Stored> {
    const { queue, acknowledge, recorder } = this.#parts;
    const { batch } = this.grant;
    const finished: Finished = { grant: this.grant, ...success };
    const { held, removed, isGone } = await (this.inDoubt ? queue.ack(finished) : acknowledge(finished));
    // If an earlier call has deleted the batch (`isGone`), the number of its events comes from the batch in memory.
    const events = isGone ? (batch?.count ?? 0) : removed;
    return { held, note: () => batch && events > 0 && recorder.removed(batch.token, events) };
  }

  async #bury(burial: Burial): Promise<Stored> {
    const { queue, recorder } = this.#parts;
    const { batch } = this.grant;
    const { held, buried, dropped, isGone } = await queue.bury(this.grant, burial);
    const events = isGone ? (batch?.count ?? 0) : buried + dropped;
    const note = () => {
      if (batch && events > 0) recorder.removed(batch.token, events);
      if (batch && buried > 0) recorder.buried(batch.token, burial.reason, buried);
      if (events > 0) burial.onEnd?.(buried === 0);
    };
    return { held, note };
  }

  #warnOfLostLease(): void {
    const line = 'the lease ran out before the job was done; its outcome does not count';
    this.#parts.log.warn({ worker: this.grant.worker, job: this.#shown }, line);
  }
}

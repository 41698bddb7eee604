import { clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Grant } from '../models/queue.ts';
import type { Delivery } from '../services/delivery.ts';
import type { Recorder } from '../services/metrics/recorder.ts';
import type { Throttle } from '../services/throttle.ts';
import { DONE, GIVEN_BACK, type JobHandler, type Settlement } from './job_handler.ts';

export interface BatchParts {
  delivery: Delivery;
  throttle: Throttle;
  recorder: Recorder;
  healRate: number;
  log: Log;
}

/** The `batch` job: delivers one batch to its subscriber. */
export function batchJob({ delivery, throttle, recorder, healRate, log }: BatchParts): JobHandler {
  return async function deliverBatch({ batch, subscriber, atMs }: Grant, signal): Promise<Settlement> {
    if (!batch) return DONE;
    const { bid, token: queue, attempts, events } = batch;
    if (!subscriber) {
      log.info({ bid, events: events.length }, 'dropped a batch: its subscriber has unsubscribed');
      return DONE;
    }
    const waitedMs = atMs - batch.createdAtMs;
    recorder.attempted({ queue, attempt: attempts, latencyMs: waitedMs });
    const startedMs = clock.monotonicMs();
    const outcome = await delivery.deliver(batch, subscriber, signal);
    const durationMs = clock.monotonicMs() - startedMs;
    if (!outcome.taken && outcome.aborted) return GIVEN_BACK;

    const status = outcome.taken ? 'success' : 'failure';
    recorder.delivered({
      queue,
      status,
      events: events.length,
      durationMs,
      latencyMs: waitedMs + durationMs,
    });
    if (outcome.taken) {
      log.debug({ bid, events: events.length, durationMs }, 'delivered a batch');
      return { done: true, heal: healRate };
    }
    const { healthPoints } = subscriber;
    const retry = throttle.retry({ healthPoints, attempts, retryAfterMs: outcome.retryAfterMs });
    const { reason } = outcome;
    log.warn(
      { bid, events: events.length, attempts, reason, retryMs: Math.round(retry.delayMs) },
      'failed to deliver',
    );
    return { done: false, retry };
  };
}

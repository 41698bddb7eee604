import { clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { PublicNames } from '../models/public_names.ts';
import type { Grant } from '../models/queue.ts';
import type { Delivery } from '../services/delivery.ts';
import type { Recorder } from '../services/metrics/recorder.ts';
import type { Throttle } from '../services/throttle.ts';
import { DONE, GIVEN_BACK, type JobHandler, type Settlement } from './job_handler.ts';

export interface BatchParts {
  delivery: Delivery;
  throttle: Throttle;
  recorder: Recorder;
  publicNames: PublicNames;
  healRate: number;
  log: Log;
}

/** The `batch` job: delivers one batch to its subscriber. */
export function batchJob(parts: BatchParts): JobHandler {
  const { delivery, throttle, recorder, healRate, log } = parts;
  return async function deliverBatch({ batch, subscriber, atMs }: Grant, signal): Promise<Settlement> {
    if (!batch) return DONE;
    const { bid, token: queue, attempts, events } = batch;
    if (!subscriber) {
      const name = await subscriberName(parts, queue);
      log.info(
        { subscriber: name, bid, events: events.length },
        'dropped a batch: its subscriber has unsubscribed',
      );
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
    const what = { subscriber: await subscriberName(parts, queue), bid, events: events.length };
    log.warn({ ...what, attempts, reason, retryMs: Math.round(retry.delayMs) }, 'failed to deliver');
    return { done: false, retry };
  };
}

/** A token can be a credential, which no log may show. */
async function subscriberName({ publicNames }: BatchParts, token: string): Promise<string> {
  try {
    return (await publicNames.of([token]))(token);
  } catch {
    return 'unknown, as Redis is away';
  }
}

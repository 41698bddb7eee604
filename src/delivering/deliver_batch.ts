import type { PublicNames } from '../authentication/public_names.ts';
import { clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Attempt } from './attempt.ts';
import type { Batch } from './batch.ts';
import type { Delivery } from './delivery.ts';
import type { Failed } from './delivery_exchange.ts';
import type { Grant } from './grant.ts';
import { DONE, GIVEN_BACK, type JobHandler, type Settlement } from './job_handler.ts';
import type { Throttle } from './retry_policy.ts';
import type { DeathReason } from './settlement.ts';
import type { Subscriber } from './subscriber.ts';

const GONE = 410;

export interface BatchSettings {
  /** The health points that a subscriber gains by a batch that it takes. */
  healRate: number;
  /** When a batch becomes a dead letter, unless its subscriber has other limits. */
  maxAttempts: number;
  maxAgeMs: number;
}

export interface BatchParts {
  delivery: Delivery;
  throttle: Throttle;
  recorder: Recorder;
  publicNames: PublicNames;
  settings: BatchSettings;
  log: Log;
}

/** The `batch` job: delivers one batch to its subscriber. */
export function batchJob(parts: BatchParts): JobHandler {
  const { delivery, recorder, settings, log } = parts;
  return async function deliverBatch(grant: Grant, signal): Promise<Settlement> {
    const { batch, subscriber } = grant;
    if (!batch) return DONE;
    const { bid, token: queue, attempts, count } = batch;
    if (!subscriber) {
      const name = await subscriberName(parts, queue);
      log.info({ subscriber: name, bid, events: count }, 'dropped a batch: its subscriber has unsubscribed');
      return DONE;
    }
    if (attempts > limitsOf(subscriber, settings).maxAttempts) return untried(parts, batch, grant.atMs);
    const waitedMs = grant.atMs - batch.createdAtMs;
    recorder.attempted({ queue, attempt: attempts, latencyMs: waitedMs });
    const startedMs = clock.monotonicMs();
    const outcome = await delivery.deliver(batch, subscriber, signal, grant.gap, grant.atMs);
    const durationMs = clock.monotonicMs() - startedMs;
    if (!outcome.taken && outcome.aborted) return GIVEN_BACK;

    recorder.delivered({
      queue,
      status: outcome.taken ? 'success' : 'failure',
      events: count,
      durationMs,
      latencyMs: waitedMs + durationMs,
    });
    if (outcome.taken) {
      log.debug({ bid, events: count, durationMs }, 'delivered a batch');
      return { end: 'done', success: { heal: settings.healRate, tookMs: durationMs } };
    }
    return afterFailure(parts, { batch, subscriber, outcome, atMs: grant.atMs, durationMs });
  };
}

interface Failure {
  batch: Batch;
  subscriber: Subscriber;
  outcome: Failed;
  /** When the attempt began, ms by Redis's clock. */
  atMs: number;
  durationMs: number;
}

/** Tries the batch again later, pauses a subscriber that is gone, or gives the batch up. */
async function afterFailure(parts: BatchParts, failure: Failure): Promise<Settlement> {
  const { throttle, settings, log } = parts;
  const { batch, subscriber, outcome, atMs, durationMs } = failure;
  const { bid, attempts, count } = batch;
  const { status, answer, reason, retryAfterMs } = outcome;
  const attempt: Attempt = { atMs, durationMs, status, reason, answer };
  const what = {
    subscriber: await subscriberName(parts, batch.token),
    bid,
    events: count,
    attempts,
    reason,
  };
  const retry = throttle.retry({ healthPoints: subscriber.healthPoints, attempts, retryAfterMs });

  if (status === GONE) {
    log.warn(what, 'the callback is gone: nothing more is sent there until its subscriber subscribes again');
    return { end: 'retry', retry: { ...retry, attempt, gone: subscriber.subscribedAt } };
  }
  const death = causeOfDeath(failure, settings);
  if (death) {
    log.error({ ...what, death }, 'gave up on a batch: it is a dead letter now');
    return { end: 'dead', burial: { ...retry, attempt, reason: death } };
  }
  log.warn({ ...what, retryMs: Math.round(retry.delayMs) }, 'failed to deliver');
  return { end: 'retry', retry: { ...retry, attempt } };
}

/** More attempts than it may have had began: it may be what its workers died of, and is not tried by another. */
async function untried(
  parts: BatchParts,
  { bid, token, attempts, count }: Batch,
  atMs: number,
): Promise<Settlement> {
  const reason = 'no attempt is left: the last did not end, or fewer are allowed now';
  const what = {
    subscriber: await subscriberName(parts, token),
    bid,
    events: count,
    attempts,
    reason,
  };
  parts.log.error({ ...what, death: 'max_attempts' }, 'gave up on a batch: it is a dead letter now');
  const attempt = { atMs, durationMs: 0, reason };
  return { end: 'dead', burial: { reason: 'max_attempts', attempt, damage: 0, throttleMs: 0 } };
}

function limitsOf(subscriber: Subscriber, { maxAttempts, maxAgeMs }: BatchSettings) {
  return { maxAttempts: subscriber.maxAttempts ?? maxAttempts, maxAgeMs: subscriber.maxAgeMs ?? maxAgeMs };
}

function causeOfDeath(
  { batch, subscriber, atMs, durationMs }: Failure,
  settings: BatchSettings,
): DeathReason | undefined {
  const { maxAttempts, maxAgeMs } = limitsOf(subscriber, settings);
  if (batch.attempts >= maxAttempts) return 'max_attempts';
  return atMs + durationMs - batch.createdAtMs >= maxAgeMs ? 'max_age' : undefined;
}

/** A token can be a credential, which no log may show. */
async function subscriberName({ publicNames }: BatchParts, token: string): Promise<string> {
  try {
    return (await publicNames.of([token]))(token);
  } catch {
    return 'unknown, as Redis is away';
  }
}

import type { PublicNames } from '../authentication/public_names.ts';
import { clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { isJoinToken } from '../ids.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Partitions } from '../store/partitions.ts';
import { type FailedAttempt, printable } from './attempt.ts';
import { type Batch, readLongBatch } from './batch.ts';
import type { Grant, Subscriber } from './grant.ts';
import { type RetrySettings, retryAfterFailure } from './retry_policy.ts';
import type { Delivery } from './sending/delivery.ts';
import type { FailedDelivery } from './sending/delivery_exchange.ts';
import { type DeathReason, DONE, GIVEN_BACK, type JobHandler, type Settlement } from './settlement.ts';
import { SubscriberLines } from './subscriber_lines.ts';
import { takenRecord } from './taken_record.ts';

const GONE = 410;
const DROPPED = 'dropped a batch: its subscriber has unsubscribed';

export interface BatchSettings extends Pick<Config, 'healRate' | 'maxAttempts' | 'maxAgeMs' | 'deliveryLog'> {
  /**
   * When the bus took over this Redis from a Ruby Routemaster. The age of older batches counts from this time, so that
   * they do not all expire at once.
   */
  takenOverAtMs?: number | undefined;
}

interface BatchParts {
  delivery: Delivery;
  /** Handles a batch whose subscriber is a join. A join has no callback: its events are counted, not delivered. */
  joins: { countBatch(grant: Grant & { batch: Batch }, signal: AbortSignal): Promise<Settlement> };
  partitions: Pick<Partitions, 'ofSubscriber'>;
  recorder: Recorder;
  publicNames: PublicNames;
  settings: BatchSettings & RetrySettings;
  log: Log;
  /** Called with the token of a subscriber that the bus has paused, because its callback answered 410. */
  onPaused: (token: string) => void;
}

type FailureParts = Pick<BatchParts, 'publicNames' | 'settings' | 'onPaused'> & { lines: SubscriberLines };

/**
 * Returns the handler of jobs named `batch`. The handler delivers the batch of the job or, if the subscriber is a join,
 * makes the join count the events.
 */
export function batchJob(parts: BatchParts): JobHandler {
  const { delivery, joins, partitions, recorder, settings, log } = parts;
  const lines = new SubscriberLines(parts);
  const failureParts = { ...parts, lines };
  return async (grant, signal) => {
    const { batch, subscriber, dropNotice, atMs } = grant;
    if (!batch) return DONE;
    const { bid, token, attempts, count } = batch;
    if (!subscriber) {
      lines.write(token, 'info', await describe(parts, batch), DROPPED);
      return DONE;
    }
    if (attempts > limitsOf(subscriber, settings).maxAttempts) return untried(failureParts, batch, atMs);
    if (batch.pieces.length === 0) {
      batch.pieces = await readLongBatch(partitions.ofSubscriber(token), batch);
      if (batch.pieces.length < count) return GIVEN_BACK;
    }
    const waitedMs = atMs - batch.createdAtMs;
    if (attempts === 1) recorder.firstAttempted(token, waitedMs);
    if (isJoinToken(token)) return joins.countBatch({ ...grant, batch }, signal);
    const startedMs = clock.monotonicMs();
    const outcome = await delivery.deliver(batch, subscriber, signal, dropNotice, atMs);
    const durationMs = clock.monotonicMs() - startedMs;
    if (!outcome.accepted && outcome.aborted) return GIVEN_BACK;

    const status = outcome.accepted ? 'success' : 'failure';
    recorder.delivered({
      subscriber: token,
      status,
      events: count,
      durationMs,
      latencyMs: waitedMs + durationMs,
    });
    if (!outcome.accepted)
      return afterFailure(failureParts, batch, subscriber, outcome, { atMs, durationMs });
    log.debug({ bid, events: count, durationMs }, 'delivered a batch');
    const record =
      settings.deliveryLog > 0 ? takenRecord(batch, { atMs, durationMs, status: outcome.status }) : undefined;
    return { end: 'done', success: { heal: settings.healRate, tookMs: durationMs, record } };
  };
}

/** Decides what follows a failed delivery: another attempt, a pause of the subscriber (410), or a dead letter. */
async function afterFailure(
  parts: FailureParts,
  batch: Batch,
  subscriber: Subscriber,
  { status, answer, reason: fullReason, retryAfterMs }: FailedDelivery,
  { atMs, durationMs }: { atMs: number; durationMs: number },
): Promise<Settlement> {
  const { settings, lines } = parts;
  const { token } = batch;
  const reason = printable(fullReason);
  const attempt: FailedAttempt = { atMs, durationMs, status, reason, answer };
  const { healthPoints } = subscriber;
  const failure = { healthPoints, attempts: batch.attempts, retryAfterMs };
  const retry = { ...retryAfterFailure(failure, settings), attempt };
  const line = { ...(await describe(parts, batch)), attempts: batch.attempts, reason };

  if (status === GONE) {
    const message = 'the callback is gone; deliveries pause until the subscriber subscribes again';
    lines.write(token, 'warn', line, message);
    const onPaused = () => parts.onPaused(token);
    return { end: 'retry', retry: { ...retry, gone: subscriber.subscribedAt, onPaused } };
  }
  const { maxAttempts, maxAgeMs } = limitsOf(subscriber, settings);
  const sinceMs = Math.max(batch.createdAtMs, settings.takenOverAtMs ?? 0);
  const isOld = atMs + durationMs - sinceMs >= maxAgeMs;
  const death: DeathReason | undefined =
    batch.attempts >= maxAttempts ? 'max_attempts' : isOld ? 'max_age' : undefined;
  if (death) {
    return {
      end: 'dead',
      burial: { ...retry, reason: death, onEnd: endLogger(lines, token, { ...line, death }) },
    };
  }
  lines.write(token, 'warn', { ...line, retryMs: Math.round(retry.delayMs) }, 'failed to deliver');
  return { end: 'retry', retry };
}

/**
 * Makes a dead letter of a batch that has no attempt left, without delivering it. Either the worker of the last attempt
 * died, perhaps killed by this batch, or the maximum number of attempts was lowered since.
 */
async function untried(parts: FailureParts, batch: Batch, atMs: number): Promise<Settlement> {
  const reason = 'no attempt is left: the last one did not end, or the limit was lowered';
  const line = { ...(await describe(parts, batch)), attempts: batch.attempts, reason, death: 'max_attempts' };
  const attempt = { atMs, durationMs: 0, reason };
  const onEnd = endLogger(parts.lines, batch.token, line);
  return { end: 'dead', burial: { reason: 'max_attempts', attempt, damage: 0, throttleMs: 0, onEnd } };
}

/**
 * Returns a function that logs how an undelivered batch has ended: dropped with its subscriber (`isDropped`), or as a
 * dead letter.
 */
function endLogger(lines: SubscriberLines, token: string, line: object): (isDropped: boolean) => void {
  return (isDropped) => {
    if (isDropped) lines.write(token, 'info', line, DROPPED);
    else lines.write(token, 'error', line, 'gave up on a batch: it is a dead letter now');
  };
}

function limitsOf(subscriber: Subscriber, { maxAttempts, maxAgeMs }: BatchSettings) {
  return { maxAttempts: subscriber.maxAttempts ?? maxAttempts, maxAgeMs: subscriber.maxAgeMs ?? maxAgeMs };
}

/**
 * Returns fields that describe a batch in log lines: the subscriber by its public name, as its token can be a
 * credential.
 */
async function describe({ publicNames }: Pick<BatchParts, 'publicNames'>, { token, bid, count }: Batch) {
  return { subscriber: await publicNames.forLog(token), bid, events: count };
}

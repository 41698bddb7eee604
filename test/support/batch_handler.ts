import { type BatchSettings, batchJob } from '../../src/jobs/batch.ts';
import type { JobHandler } from '../../src/jobs/job_handler.ts';
import type { Log } from '../../src/log.ts';
import { Clients } from '../../src/models/client.ts';
import { Counters } from '../../src/models/counters.ts';
import { PublicNames } from '../../src/models/public_names.ts';
import type { Store } from '../../src/redis/store.ts';
import { CallbackPolicy } from '../../src/services/callback_policy.ts';
import { Delivery } from '../../src/services/delivery.ts';
import { Recorder } from '../../src/services/metrics/recorder.ts';
import { Throttle } from '../../src/services/throttle.ts';

const MINUTE_MS = 60_000;

export interface HandlerSettings extends Partial<BatchSettings> {
  deliveryTimeoutMs?: number;
  maxBackoffMs?: number;
}

/** The `batch` job, wired as a delivery thread wires it, which may call 127.0.0.1. */
export function batchHandler(
  store: Store,
  log: Log,
  { deliveryTimeoutMs = MINUTE_MS, maxBackoffMs = MINUTE_MS, ...limits }: HandlerSettings = {},
): { handler: JobHandler; recorder: Recorder; close: () => Promise<void> } {
  const delivery = new Delivery(
    { deliveryTimeoutMs, connectTimeoutMs: 2000, sslVerify: true },
    new CallbackPolicy(['127.0.0.1']),
  );
  const recorder = new Recorder(new Counters(store, { flushIntervalMs: MINUTE_MS, log }));
  const publicNames = new PublicNames(new Clients(store, []));
  const throttle = new Throttle({ maxBackoffMs, damageRate: 2 });
  const settings = { healRate: 1, maxAttempts: 1000, maxAgeMs: 86_400_000, ...limits };
  const handler = batchJob({ delivery, throttle, recorder, publicNames, settings, log });
  return { handler, recorder, close: () => delivery.close() };
}

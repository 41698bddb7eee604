import { Clients } from '../src/authentication/client.ts';
import { NameKey } from '../src/authentication/name_key.ts';
import { PublicNames } from '../src/authentication/public_names.ts';
import { type BatchSettings, batchJob } from '../src/delivering/deliver_batch.ts';
import { Delivery } from '../src/delivering/sending/delivery.ts';
import type { JobHandler } from '../src/delivering/settlement.ts';
import type { Log } from '../src/log.ts';
import { Counters } from '../src/metrics/counters.ts';
import { Recorder } from '../src/metrics/recorder.ts';
import type { Partition } from '../src/store/partition.ts';
import { Partitions } from '../src/store/partitions.ts';
import { CallbackPolicy } from '../src/subscribing/callback_policy.ts';

const MINUTE_MS = 60_000;

export interface HandlerSettings extends Partial<BatchSettings> {
  deliveryTimeoutMs?: number;
  maxBackoffMs?: number;
  /** Counts what the handler does. By default nobody reads the counts. */
  recorder?: Recorder;
}

/** Returns the handler of `batch` jobs, with the parts of a delivery thread. It may call 127.0.0.1. */
export function batchHandler(
  store: Partition,
  log: Log,
  { deliveryTimeoutMs = MINUTE_MS, maxBackoffMs = MINUTE_MS, ...settled }: HandlerSettings = {},
): { handler: JobHandler; recorder: Recorder; close: () => Promise<void> } {
  const partitions = new Partitions(store);
  const counters = () => new Counters(partitions, { flushIntervalMs: MINUTE_MS, log });
  const { recorder = new Recorder(counters()), ...limits } = settled;
  const delivery = new Delivery(
    { deliveryTimeoutMs, connectTimeoutMs: 2000, sslVerify: true, keptConnections: 500 },
    new CallbackPolicy(['127.0.0.1']),
  );
  const publicNames = new PublicNames(new Clients(store, []), new NameKey(store));
  const settings = {
    healRate: 1,
    maxAttempts: 1000,
    maxAgeMs: 86_400_000,
    deliveryLog: 1000,
    maxBackoffMs,
    damageRate: 2,
    ...limits,
  };
  const joins = {
    countBatch: () => Promise.reject(new Error('there are no joins')),
  };
  const handler = batchJob({
    delivery,
    joins,
    partitions,
    recorder,
    publicNames,
    settings,
    log,
    onPaused: () => {},
  });
  return { handler, recorder, close: () => delivery.close() };
}

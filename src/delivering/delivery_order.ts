import type { Config } from '../config.ts';

/**
 * An order to a delivery thread or a quarantine process (which delivers batches that may have killed workers): to ask
 * for jobs of a partition, given by its index in `Partitions.all` (`look`), or to end within `graceMs` (`stop`).
 */
export type DeliveryOrder = { kind: 'look'; partition: number } | { kind: 'stop'; graceMs: number };

/** The data with which a delivery thread of the worker process starts. */
export interface ThreadData {
  config: Config;
  index: number;
  /** The shared counts of IdleWorkers: how many workers of each thread are idle in each partition. */
  idleCounts: Int32Array;
  takenOverAtMs: number | undefined;
}

/**
 * The data with which a quarantine process starts. The process delivers batches that may have killed workers: at least
 * two workers died while they were delivering such a batch.
 */
export interface QuarantineData {
  config: Config;
  /** The partition whose batches are delivered, as its index in `Partitions.all`. */
  partition: number;
  takenOverAtMs: number | undefined;
  /** The id of the only worker in the process. */
  worker: string;
  /** The process ends when its worker has had nothing to deliver for this time. */
  idleMs: number;
}

import type { Config } from '../config.ts';

/**
 * An order to a delivery thread, or to a quarantine (the process that delivers batches which may have killed workers):
 * stop, or look for jobs of a partition. The partition is given by its index in `Partitions.all`.
 */
export type DeliveryOrder = { kind: 'look'; partition: number } | { kind: 'stop'; graceMs: number };

/** The data with which a delivery thread of the worker process starts. */
export interface ThreadData {
  config: Config;
  index: number;
  /** The shared counts of IdleWorkers: how many workers of each thread are idle. */
  idleCounts: Int32Array;
  takenOverAtMs: number | undefined;
}

/**
 * The data with which a quarantine starts. A quarantine is a process that delivers batches which may have killed
 * their workers.
 */
export interface QuarantineData {
  config: Config;
  /** The partition whose batches are delivered, as its index in `Partitions.all`. */
  partition: number;
  takenOverAtMs: number | undefined;
  /** The id of the only worker in the process. */
  worker: string;
  /** The process ends after this time without a batch that it should deliver. */
  idleMs: number;
}

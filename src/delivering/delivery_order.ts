import type { Config } from '../config.ts';

/**
 * Asks a thread or a quarantine to stop, or to look for jobs of a partition, given by its index in
 * `Partitions.all`.
 */
export type DeliveryOrder = { kind: 'look'; partition: number } | { kind: 'stop'; graceMs: number };

/** The data with which a delivery thread of the worker process starts. */
export interface ThreadData {
  config: Config;
  index: number;
  /** The counts of IdleWorkers. */
  idleCounts: Int32Array;
  takenOverAtMs: number | undefined;
}

/**
 * The data with which a quarantine starts: a process that delivers batches which may have killed their
 * workers.
 */
export interface QuarantineData {
  config: Config;
  /** The index of the partition in `Partitions.all`. */
  partition: number;
  takenOverAtMs: number | undefined;
  /** The id of the only worker. */
  worker: string;
  /** Time without a suspect after which the process ends. */
  idleMs: number;
}

import type { Config } from '../config.ts';

/** Asks a thread or a quarantine to look for jobs, or to stop. */
export type DeliveryOrder = { kind: 'look' } | { kind: 'stop'; graceMs: number };

/** The data with which a delivery thread of the worker process starts. */
export interface ThreadData {
  config: Config;
  index: number;
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
}

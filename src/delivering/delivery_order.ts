import type { Config } from '../config.ts';

/**
 * An order to a delivery thread or a quarantine process. `look`: ask Redis for jobs of a partition, given by its index
 * in `Partitions.all`. `stop`: end within `graceMs`.
 */
export type DeliveryOrder = { kind: 'look'; partition: number } | { kind: 'stop'; graceMs: number };

export interface ThreadData {
  config: Config;
  index: number;
  /** The number of idle workers by thread and partition, in memory that all threads share (see IdleWorkers). */
  idleCounts: Int32Array;
  takenOverAtMs: number | undefined;
}

/**
 * The data with which a quarantine process starts. The process delivers suspects: batches that at least two workers
 * were delivering when they died.
 */
export interface QuarantineData {
  config: Config;
  /** The partition whose batches are delivered, as its index in `Partitions.all`. */
  partition: number;
  takenOverAtMs: number | undefined;
  worker: string;
  /** The quarantine process ends after this time without a batch to deliver. */
  idleMs: number;
}

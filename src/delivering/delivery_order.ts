import type { Config } from '../config.ts';

/** Asks a thread or a quarantine to look for jobs, or to stop. */
export type DeliveryOrder = { kind: 'look' } | { kind: 'stop'; graceMs: number };

/** What a thread of the worker process is started with. */
export interface ThreadData {
  config: Config;
  index: number;
  idleCounts: Int32Array;
  takenOverAtMs: number | undefined;
}

/** What a quarantine is started with. */
export interface QuarantineData {
  config: Config;
  /** The place of the partition among all. */
  partition: number;
  takenOverAtMs: number | undefined;
  /** The id of the only worker. */
  worker: string;
}

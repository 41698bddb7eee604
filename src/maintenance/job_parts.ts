import type { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import type { Turns } from '../delivering/turns.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** Parts of a job that works on one partition and reports what it did. */
export interface RepairParts {
  /** The partition on which the job works. Its `aux` queue holds the job. */
  partition: Partition;
  publicNames: PublicNames;
  recorder: Recorder;
  log: Log;
}

/** Parts of all jobs of an `aux` queue. */
export interface JobParts extends RepairParts {
  config: Config;
  partitions: Partitions;
  /**
   * Lets one sweep of this process run at a time. A sweep rests as long as it works; 16 at once would leave Redis no
   * rest.
   */
  sweeps: Turns;
  /**
   * Aborted as soon as the process begins to stop. The signal that a job itself gets is aborted only when the
   * grace period ends.
   */
  stopping: AbortSignal;
}

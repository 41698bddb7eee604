import type { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** What the jobs of the `aux` queue are made from. */
export interface JobParts {
  config: Config;
  /** The partition whose `aux` queue the jobs are in, and on which they work. */
  partition: Partition;
  partitions: Partitions;
  publicNames: PublicNames;
  recorder: Recorder;
  log: Log;
  /** Aborted as soon as the process stops; the signal that a job gets is aborted only when the grace period is over. */
  stopping: AbortSignal;
}

import type { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { OwnerLimit } from '../routing/owner_limit.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** The objects that a job needs to work on one partition and to report what it did. */
export interface RepairParts {
  /**
   * The partition on which the job works. The job itself is in the queue `aux` (jobs that deliver no batch) of this
   * partition.
   */
  partition: Partition;
  publicNames: PublicNames;
  recorder: Recorder;
  log: Log;
}

/** The objects that the handlers of all jobs in the queue `aux` need. These are the jobs that deliver no batch. */
export interface JobParts extends RepairParts {
  config: Config;
  partitions: Partitions;
  /**
   * Makes the sweeps of this process run one at a time. To spare Redis, a sweep rests after each command for as long as
   * the command took. Several sweeps at once would keep Redis busy, because one would work while another rests.
   */
  oneAtATime: OwnerLimit;
  /**
   * Aborted as soon as the process begins to stop. In contrast, the signal that a running job gets is aborted only at
   * the end of the grace period.
   */
  stopping: AbortSignal;
}

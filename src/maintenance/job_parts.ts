import type { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { OwnerLimit } from '../routing/owner_limit.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';

/** The objects that a sweep needs to repair one partition and to report what it did. */
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
   * Lets only one sweep of this process run at a time. To spare Redis, a sweep rests after each command for as long as
   * the command took. Another sweep would keep Redis busy during these rests.
   */
  oneAtATime: OwnerLimit;
  /**
   * Aborted as soon as the process begins to stop. Running jobs may still finish during the grace period; their own
   * signals are aborted only at its end.
   */
  stopping: AbortSignal;
}

/** What a sweep can find, each with what its name is. INTERNALS.md tells what becomes of it. */
export const FINDING_KINDS = {
  batch_unindexed: 'bid',
  batch_malformed: 'bid',
  batch_unreadable: 'bid',
  batch_without_job: 'bid',
  entry_without_batch: 'bid',
  attempts_without_batch: 'bid',
  dead_letter_incomplete: 'bid',
  dead_letter_unreadable: 'bid',
  entry_without_dead_letter: 'bid',
  job_unindexed: 'job',
  job_without_batch: 'job',
  job_in_no_state: 'job',
  job_in_two_states: 'job',
  worker_unindexed: 'worker',
  worker_idle: 'worker',
  worker_out_of_lane: 'worker',
  lane_miscounted: 'subscriber',
  lane_stuck: 'subscriber',
  probe_lost: 'subscriber',
  batches_miscounted: 'subscriber',
  events_miscounted: 'subscriber',
  dead_letters_miscounted: 'subscriber',
} as const;

export type FindingKind = keyof typeof FINDING_KINDS;

/** Something that was wrong, and is mended; save for what is unreadable, which is left to a person. */
export interface Finding {
  kind: FindingKind;
  /** A batch's UID, a job (the UID of its batch if it delivers one), a worker, or a subscriber's token. */
  name: string;
}

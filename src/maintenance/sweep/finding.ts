/** The kinds of findings, each with the kind of its `name`. INTERNALS.md says how each is mended. */
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

export function isFindingKind(kind: string): kind is FindingKind {
  return kind in FINDING_KINDS;
}

/** An inconsistency that was mended. Only what is unreadable is left as it is, for a person to look at. */
export interface Finding {
  kind: FindingKind;
  /** A batch's id; a job's name, or the id of the batch that it delivers; a worker's id; or a subscriber's token. */
  name: string;
}

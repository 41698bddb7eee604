/**
 * The kinds of findings. `bid`, for example, means that the `name` of such a finding is the id of a batch. INTERNALS.md
 * describes each repair.
 */
export const FINDING_KINDS = {
  batch_unindexed: 'bid',
  batch_malformed: 'bid',
  batch_unreadable: 'bid',
  batch_without_job: 'bid',
  batch_of_ruby: 'bid',
  batch_of_ruby_unreadable: 'bid',
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
  join_incomplete: 'subscriber',
  join_unscheduled: 'subscriber',
  entry_without_join: 'subscriber',
  open_key_astray: 'subscriber',
  batches_miscounted: 'subscriber',
  events_miscounted: 'subscriber',
  dead_letters_miscounted: 'subscriber',
  delayed_without_text: 'event',
  delayed_without_entry: 'event',
  delayed_without_topic: 'topic',
  delayed_topic_misplaced: 'topic',
  delayed_bytes_miscounted: 'topic',
  delayed_miscounted: 'client',
  trigger_misplaced: 'trigger',
  trigger_incomplete: 'trigger',
  trigger_unreadable: 'trigger',
  entry_without_trigger: 'trigger',
  records_miscounted: 'subscriber',
  records_total_wrong: 'key',
} as const;

type FindingKind = keyof typeof FINDING_KINDS;

export function isFindingKind(kind: string): kind is FindingKind {
  return kind in FINDING_KINDS;
}

/**
 * An inconsistency that a sweep found. The sweep has repaired it, except for unreadable data, which a person must look
 * at.
 */
export interface Finding {
  kind: FindingKind;
  /**
   * Names the wrong data, for example by the id of a batch (see FINDING_KINDS). A delayed event is named by its topic
   * and its id, a trigger by its name and the token of its client, and the job of a batch by the id of the batch.
   */
  name: string;
}

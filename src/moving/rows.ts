import { topicOfDefinition } from '../flow/triggers/definition.ts';
import { type TriggerName, triggerAt } from '../flow/triggers/stored_trigger.ts';
import { joinToken } from '../ids.ts';
import { unpackField } from '../metrics/counter_hash.ts';
import { subjectOf } from '../metrics/series.ts';
import { bidOf } from '../store/job.ts';
import type { KeyName } from '../store/keys.ts';

/** The owner of a key, or of one element of a key. A move copies the data to the partitions of the owner. */
export type Owner =
  | { subscriber: string }
  | { topic: string }
  /** A batch. Its data is copied to the partition of its subscriber. */
  | { batch: string }
  /** A worker. Its data is copied to the partition of the batch that it delivers. */
  | { worker: string }
  /** A trigger. Its data is copied to the partition of the topic to which it publishes. */
  | { trigger: TriggerName }
  | 'control'
  | 'all'
  /** The data is copied to no partition. */
  | 'nobody';

/**
 * An element of a key as two texts: field and value in a hash, member and score in a sorted set, or an item and an
 * empty text in a list or set.
 */
type Texts = readonly [first: string, second: string];

type Row =
  /**
   * The whole key belongs to one owner, such as a subscriber, and is copied to the owner's partition. `whole` returns
   * the owner from the variable parts of the key's name, such as a token.
   */
  | { whole: (...parts: string[]) => Owner }
  /**
   * The elements of the key have different owners, such as subscribers. `split` returns the owner of an element. The
   * element is copied to the owner's partition.
   */
  | { split: (texts: Texts, parts: readonly string[], element: Buffer) => Owner }
  /** The key is not copied. The text gives the reason. */
  | { stays: string };

const ofSubscriber = (subscriber = ''): Owner => ({ subscriber });
const ofTopic = (topic = ''): Owner => ({ topic });
const ofBatch = (batch = ''): Owner => ({ batch });

const toSubscriber: Row = { whole: ofSubscriber };
const toTopic: Row = { whole: ofTopic };
const toBatch: Row = { whole: ofBatch };
const toControl: Row = { whole: () => 'control' };
const toAll: Row = { whole: () => 'all' };
const bySubscriber: Row = { split: ([token]) => ofSubscriber(token) };
const byTopic: Row = { split: ([topic]) => ofTopic(topic) };
const byBatch: Row = { split: ([bid]) => ofBatch(bid) };
const byWorker: Row = { split: ([worker], [q]) => (q === 'aux' ? 'nobody' : { worker }) };
const byCounter: Row = { split: (_, __, field) => ownerOfCounter(field) };
const byHistory: Row = { whole: (subject = '') => ownerOfHistory(subject) };
/** Jobs of the queue `aux` deliver no batch. They are not copied, because the new bus queues its own. */
const byJob: Row = { split: (_, [q], job) => (q === 'aux' ? 'nobody' : ofBatch(bidOf(job))) };
const byEnding: Row = { split: ([log]) => ofSubscriber(log.slice(log.indexOf(' ') + 1)) };

const oneOnly: Row = { stays: 'only a bus with several partitions has it' };
const passing: Row = { stays: 'it is gone within a minute, or with the process that wrote it' };

/** How a move to several partitions copies each key. */
export const ROWS: Readonly<Record<KeyName, Row>> = {
  topics: byTopic,
  subscribers: bySubscriber,
  subscriber_topics: toSubscriber,
  topic_subscribers: bySubscriber,
  topics_owned: byTopic,
  topic: toTopic,
  subscriber: toSubscriber,
  batch: toBatch,
  ruby_batch: toBatch,
  attempts: toBatch,
  batches_open: bySubscriber,
  batches_room: bySubscriber,
  batches_run: toAll,
  // The field '' is not a batch, and every partition gets it. Its long value makes Redis store the hash as a table
  // instead of a list, in which each look-up is slow.
  batches_closed: { split: ([bid]) => (bid === '' ? 'all' : ofBatch(bid)) },
  batches_current: toSubscriber,
  batches_index: byBatch,
  batches_queued: toSubscriber,
  gauge_events: bySubscriber,
  gauge_batches: bySubscriber,
  dead_letter: toBatch,
  dead_letter_about: toBatch,
  dead_letters_index: byBatch,
  dead_letters_of: toSubscriber,
  dead_letters_events: bySubscriber,
  batches_retrying: toSubscriber,
  deliveries_taken: toSubscriber,
  deliveries_dropped: toSubscriber,
  deliveries_trail: { stays: 'listings do without it, and workers begin it anew' },
  deliveries_logs: byEnding,
  deliveries_total: { stays: 'each partition adds up its own' },
  drop_notice: toSubscriber,
  drop_notice_carried: toSubscriber,
  dropped: toSubscriber,
  // Every partition gets all idempotency keys. The name of such a key in Redis contains a digest instead of the topic,
  // so the bus cannot tell in which partition the topic lives.
  idempotency: toAll,
  idempotency_quota: toAll,
  outbox: oneOnly,
  outbox_aside: oneOnly,
  outboxes_sent: oneOnly,
  outboxes_bytes: oneOnly,
  outboxes_applied: oneOnly,
  rate: toControl,
  jobs_index: byJob,
  jobs_scheduled: byJob,
  jobs_instant: byJob,
  jobs_pending: byJob,
  jobs_pending_index: byWorker,
  jobs_suspect: byJob,
  jobs_waiting: toSubscriber,
  lanes_in_flight: bySubscriber,
  lanes_held: { split: ([, token]) => ofSubscriber(token) },
  delayed_topics: byTopic,
  delayed_due: toTopic,
  delayed_events: toTopic,
  // A field is a topic or, if it begins with a colon, a total over topics. Totals are not copied: each partition adds
  // up its own topics.
  delayed_held: { split: ([field]) => (field.startsWith(':') ? 'nobody' : ofTopic(field)) },
  triggers_due: { split: ([member]) => ({ trigger: triggerAt(member) }) },
  joins: bySubscriber,
  joins_of: { split: ([name], [client = '']) => ofSubscriber(joinToken(name, client)) },
  joins_into: { split: ([, join]) => ofSubscriber(join) },
  triggers_of: { split: ([, definition]) => ofTopic(topicOfDefinition(definition)) },
  trigger: { whole: (client = '', name = '') => ({ trigger: { client, name } }) },
  trigger_left: passing,
  joins_expiring: bySubscriber,
  open_keys: toSubscriber,
  open_keys_since: toSubscriber,
  share_jobs: byJob,
  share_workers: byWorker,
  leases: byWorker,
  leases_last: toAll,
  leases_ahead: toAll,
  workers_main: byWorker,
  workers_aux: passing,
  workers: byWorker,
  counters: byCounter,
  counters_reported: byCounter,
  counters_flushed: passing,
  history_fine: byHistory,
  history_coarse: byHistory,
  bulk: { stays: 'its owner begins it anew for what is left' },
  standings: toControl,
  api_tokens: toAll,
  api_token: { split: ([field]) => (KNOWN_OF_CLIENTS.has(field) ? 'all' : 'control') },
  former_secret: toControl,
  name_key: toControl,
  digest_keys: toControl,
  digest_run: toControl,
  nonce_quota: toControl,
  nonces_refused: toControl,
  nonce_uses: toControl,
  session: toControl,
  sessions: toControl,
  failed_logins: toControl,
  audit: toControl,
  tail: passing,
  tail_watched: passing,
  move: { stays: 'it says that the bus was moved' },
  schema: { stays: 'it is written when everything is there' },
  begun_at: toAll,
  taken_over: toAll,
  strays_adopted: toControl,
  ruby_watched: passing,
};

/**
 * Fields of a client that are copied to every partition. All others, such as digests, go only to the control partition.
 */
const KNOWN_OF_CLIENTS = new Set(['publish', 'subscribe', 'created_at']);

function ownerOfCounter(field: Buffer): Owner {
  const series = unpackField(field);
  return (series && subjectOf(series.name, series.tags)) ?? 'control';
}

function ownerOfHistory(subject: string): Owner {
  const [kind, name] = [subject.slice(0, subject.indexOf(':')), subject.slice(subject.indexOf(':') + 1)];
  if (kind === 'topic') return ofTopic(name);
  return kind === 'subscriber' ? ofSubscriber(name) : 'control';
}

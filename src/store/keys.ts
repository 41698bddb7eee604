type RedisType = 'set' | 'hash' | 'list' | 'zset' | 'string' | 'stream';

/**
 * Every key of the data layout, with its Redis type; INTERNALS.md explains them. The functions that make keys, such as
 * `keys.batch(bid)`, are made from this table, for TypeScript and for scripts. To find the code that uses a key, search
 * for its name in this table: `gauge_events` for the pattern `batches:gauges:event`.
 */
export const LAYOUT = {
  topics: { pattern: 'topics', type: 'set' },
  subscribers: { pattern: 'subscribers', type: 'set' },
  subscriber_topics: { pattern: 'topics:{token}', type: 'set' },
  topic_subscribers: { pattern: 'subscribers:{topic}', type: 'set' },
  topics_owned: { pattern: 'topics:owned:{token}', type: 'set' },
  topic: { pattern: 'topic:{topic}', type: 'hash' },
  subscriber: { pattern: 'subscriber:{token}', type: 'hash' },
  batch: { pattern: 'batch:{bid}', type: 'list' },
  ruby_batch: { pattern: 'batches:{bid}', type: 'list' },
  attempts: { pattern: 'attempts:{bid}', type: 'list' },
  batches_open: { pattern: 'batches:open', type: 'hash' },
  batches_room: { pattern: 'batches:room', type: 'hash' },
  batches_run: { pattern: 'batches:run', type: 'string' },
  batches_closed: { pattern: 'batches:closed', type: 'hash' },
  batches_current: { pattern: 'batches:current:{token}', type: 'set' },
  batches_index: { pattern: 'batches:index', type: 'zset' },
  batches_queued: { pattern: 'batches:index:{token}', type: 'zset' },
  gauge_events: { pattern: 'batches:gauges:event', type: 'hash' },
  gauge_batches: { pattern: 'batches:gauges:batch', type: 'hash' },
  dead_letter: { pattern: 'dead_letter:{bid}', type: 'list' },
  dead_letter_about: { pattern: 'dead_letter:about:{bid}', type: 'hash' },
  dead_letters_index: { pattern: 'dead_letters:index', type: 'zset' },
  dead_letters_of: { pattern: 'dead_letters:index:{token}', type: 'zset' },
  dead_letters_events: { pattern: 'dead_letters:gauges:event', type: 'hash' },
  batches_retrying: { pattern: 'batches:retrying:{token}', type: 'zset' },
  deliveries_taken: { pattern: 'deliveries:taken:{token}', type: 'list' },
  deliveries_dropped: { pattern: 'deliveries:dropped:{token}', type: 'list' },
  deliveries_trail: { pattern: 'deliveries:trail:{ending}', type: 'list' },
  deliveries_logs: { pattern: 'deliveries:logs', type: 'zset' },
  deliveries_total: { pattern: 'deliveries:total', type: 'hash' },
  drop_notice: { pattern: 'gap:{token}', type: 'hash' },
  drop_notice_carried: { pattern: 'gap:telling:{token}', type: 'hash' },
  dropped: { pattern: 'dropped:{token}', type: 'hash' },
  idempotency: { pattern: 'idempotency:{digest}', type: 'string' },
  idempotency_quota: { pattern: 'idempotency:quota:{token}', type: 'string' },
  outbox: { pattern: 'outbox', type: 'list' },
  outbox_aside: { pattern: 'outbox:{partition}', type: 'list' },
  outboxes_sent: { pattern: 'outboxes:sent', type: 'hash' },
  outboxes_bytes: { pattern: 'outboxes:bytes', type: 'hash' },
  outboxes_applied: { pattern: 'outboxes:applied', type: 'hash' },
  rate: { pattern: 'rate:{token}', type: 'hash' },
  jobs_index: { pattern: 'jobs:index:{q}', type: 'set' },
  jobs_scheduled: { pattern: 'jobs:scheduled:{q}', type: 'zset' },
  jobs_instant: { pattern: 'jobs:instant:{q}', type: 'list' },
  jobs_pending: { pattern: 'jobs:pending:{q}:{worker}', type: 'list' },
  jobs_pending_index: { pattern: 'jobs:pending:index:{q}', type: 'set' },
  jobs_suspect: { pattern: 'jobs:suspect', type: 'list' },
  jobs_waiting: { pattern: 'jobs:waiting:{token}', type: 'zset' },
  lanes_in_flight: { pattern: 'lanes:in_flight', type: 'hash' },
  lanes_held: { pattern: 'lanes:held', type: 'hash' },
  delayed_topics: { pattern: 'delayed:topics', type: 'zset' },
  delayed_due: { pattern: 'delayed:due:{topic}', type: 'zset' },
  delayed_events: { pattern: 'delayed:events:{topic}', type: 'hash' },
  delayed_held: { pattern: 'delayed:held:{token}', type: 'hash' },
  triggers_due: { pattern: 'triggers:due', type: 'zset' },
  joins: { pattern: 'joins', type: 'set' },
  joins_of: { pattern: 'joins:of:{token}', type: 'set' },
  joins_into: { pattern: 'joins:into', type: 'hash' },
  triggers_of: { pattern: 'triggers:of:{token}', type: 'hash' },
  trigger: { pattern: 'trigger:{token}:{name}', type: 'hash' },
  trigger_left: { pattern: 'triggers:left:{token}:{name}', type: 'string' },
  joins_expiring: { pattern: 'joins:expiring', type: 'zset' },
  open_keys: { pattern: 'joins:keys:{token}', type: 'hash' },
  open_keys_since: { pattern: 'joins:since:{token}', type: 'zset' },
  share_jobs: { pattern: 'shares:jobs:{share}', type: 'list' },
  share_workers: { pattern: 'shares:workers:{share}', type: 'set' },
  leases: { pattern: 'leases', type: 'hash' },
  leases_last: { pattern: 'leases:last', type: 'string' },
  leases_ahead: { pattern: 'leases:ahead', type: 'string' },
  workers_main: { pattern: 'workers:main', type: 'set' },
  workers_aux: { pattern: 'workers:aux', type: 'set' },
  workers: { pattern: 'workers', type: 'hash' },
  counters: { pattern: 'counters', type: 'hash' },
  counters_reported: { pattern: 'counters:reported', type: 'hash' },
  counters_flushed: { pattern: 'counters:flushed:{process}', type: 'string' },
  history_fine: { pattern: 'history:fine:{subject}', type: 'list' },
  history_coarse: { pattern: 'history:coarse:{subject}', type: 'list' },
  bulk: { pattern: 'bulk:{owner}', type: 'hash' },
  standings: { pattern: 'standings', type: 'string' },
  api_tokens: { pattern: 'api_tokens:by_token', type: 'hash' },
  api_token: { pattern: 'api_token:{token}', type: 'hash' },
  former_secret: { pattern: 'former_secret:{token}', type: 'hash' },
  name_key: { pattern: 'name_key', type: 'string' },
  digest_keys: { pattern: 'digest:keys', type: 'hash' },
  digest_run: { pattern: 'digest:run', type: 'string' },
  nonce_quota: { pattern: 'digest:quota:{token}', type: 'string' },
  nonces_refused: { pattern: 'digest:refused:{token}', type: 'string' },
  nonce_uses: { pattern: 'digest:counts:{nonce}', type: 'string' },
  session: { pattern: 'session:{digest}', type: 'string' },
  sessions: { pattern: 'sessions:{owner}', type: 'zset' },
  failed_logins: { pattern: 'failed_logins:{minute}', type: 'string' },
  audit: { pattern: 'audit', type: 'stream' },
  tail: { pattern: 'tail:of:{watch}', type: 'list' },
  tail_watched: { pattern: 'tail:watched', type: 'zset' },
  move: { pattern: 'move', type: 'hash' },
  schema: { pattern: 'schema', type: 'string' },
  begun_at: { pattern: 'begun_at', type: 'string' },
  taken_over: { pattern: 'taken_over', type: 'string' },
  strays_adopted: { pattern: 'strays:adopted', type: 'string' },
  ruby_watched: { pattern: 'ruby:watched', type: 'string' },
} as const satisfies Record<string, { pattern: string; type: RedisType }>;

/**
 * Each script call declares one key: the partition's prefix and this text. A cluster sends the call to the master of
 * this key. The key must never exist. So while the partition moves to another master, key by key, the old master
 * refuses the call (ASK), because it does not have the key. If the key existed, the old master might run the script,
 * which would fail half-way at the first key that has been moved.
 */
export const DECLARED_KEY = 'absent';

/**
 * Every channel. All begin with `wake`, because the ACL in docs/operating.md lets the bus listen only to such channels.
 */
export const CHANNELS = {
  wake: { pattern: 'wake:{kind}' },
  processes: { pattern: 'wake:processes:{type}' },
} as const;

/** The kinds of announcements that scripts publish. INTERNALS.md ("Waking up") says what each wakes. */
export type Wake = 'main' | 'aux' | 'due' | 'suspect';

export type ProcessType = (typeof PROCESS_TYPES)[number];

export const PROCESS_TYPES = ['web', 'worker'] as const;

export type KeyName = keyof typeof LAYOUT;

type Parts<P extends string> = P extends `${string}{${string}}${infer Rest}`
  ? [part: string, ...Parts<Rest>]
  : [];

/** The functions that make the keys of one partition, such as `keys.batch(bid)`: one for each key of the layout. */
export type Keyspace = {
  readonly [K in KeyName]: (...parts: Parts<(typeof LAYOUT)[K]['pattern']>) => string;
} & {
  readonly wake: (kind: Wake) => string;
  readonly processes: (type: ProcessType) => string;
};

/**
 * Makes the functions for the keys of one partition. On a cluster the prefix must contain the partition's hash tag,
 * such as `{0}:`, so that all these keys are on one master.
 */
export function keyspace(prefix = ''): Keyspace {
  const functions = Object.entries({ ...LAYOUT, ...CHANNELS }).map(([name, { pattern }]) => {
    const text = fixedText(pattern);
    return [
      name,
      (...parts: string[]) => prefix + text.map((piece, index) => piece + (parts[index] ?? '')).join(''),
    ];
  });
  return Object.fromEntries(functions);
}

/**
 * Returns the text before, between and after the variable parts of a pattern: `['topics:', '']` for `topics:{token}`.
 */
export function fixedText(pattern: string): string[] {
  return pattern.split(/\{[^}]*\}/);
}

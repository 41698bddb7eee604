import type { Contract } from '../contract.ts';

const q = 'main|aux';

/**
 * The inconsistencies that a sweep has found. `kind` is one of FINDING_KINDS (src/maintenance/sweep/finding.ts), such
 * as `batch_unreadable`. `name` identifies the batch, job, worker or other thing that is wrong.
 */
const findings = [{ kind: 'text', name: 'bytes' }] as const;

const single = 'batch|ruby_batch|dead_letter|attempts|dead_letter_about';
const indexes =
  'batches_index|batches_queued|batches_retrying|batches_current|batches_open|batches_room|batches_closed|dead_letters_index|dead_letters_of';

const eventsByTopic = [{ topic: 'text', events: 'number' }] as const;

export const maintenanceContracts = {
  try_commands: {
    arguments: {},
    reply: { command: 'text?', error: 'text?' },
  },
  adopt: {
    arguments: { layout: 'digits' },
    reply: 'flag',
  },
  continue_outbox: {
    arguments: { applied: 'number' },
    reply: 'flag',
  },
  upgrade: {
    arguments: { from: 'digits', to: 'digits', leaseMs: 'number' },
    reply: 'number',
  },
  ruby_workers: {
    arguments: { leaseMs: 'number' },
    reply: { workers: 'number', silentMs: 'number?' },
  },
  watch_ruby: {
    arguments: { leaseMs: 'number', everyMs: 'number' },
    reply: { workers: 'number', adopted: 'number' },
  },
  schedule: {
    arguments: { limit: 'number' },
    reply: {
      promoted: 'number',
      nextDueUs: 'number?',
      delayedDueUs: 'number?',
      triggersDueUs: 'number?',
      joinsDueUs: 'number?',
    },
  },
  enqueue: {
    arguments: { q, job: 'bytes', leaseMs: 'number' },
    reply: 'flag',
  },
  scrub: {
    arguments: { leaseMs: 'number', hasOthers: 'flag' },
    reply: { workers: 'number', jobs: { main: 'number', aux: 'number' } },
  },
  autodrop: {
    arguments: {
      orders: [{ token: 'text?', maxDeleted: 'number' }],
      deliveryLog: 'number',
      begunBid: 'text?',
      begunItems: 'number?',
      begunTopics: eventsByTopic,
    },
    reply: {
      orders: [{ deleted: 'number', isSpent: 'flag' }],
      drops: [
        {
          subscriber: 'text',
          queued: 'number',
          batches: 'number',
          events: 'number',
          fromMs: 'number',
          toMs: 'number',
        },
      ],
      begunBid: 'text?',
      begunItems: 'number?',
      begunTopics: eventsByTopic,
    },
  },
  drop_delayed: {
    arguments: { orders: [{ topic: 'text', maxDeleted: 'number' }] },
    reply: [{ topic: 'text', events: 'number' }],
  },
  holdings: {
    arguments: { samples: 'number?', tokens: ['text'] },
    reply: [{ batches: 'number', bytes: 'number', deadLetters: 'number', deadLetterBytes: 'number' }],
  },
  measure: {
    arguments: { token: 'text?', isDead: 'flag', from: 'number', maxBytes: 'number' },
    reply: { measured: 'number', bytes: 'number' },
  },
  drop_logs: {
    arguments: { maxLogs: 'number' },
    reply: 'number',
  },
  sweep_deliveries: {
    arguments: { names: ['text'] },
    reply: findings,
  },
  sweep_batches: {
    arguments: {
      where: `${single}|${indexes}`,
      token: 'text?',
      names: ['bytes'],
    },
    reply: findings,
  },
  sweep_jobs: {
    arguments: { q, rubyWorkers: 'number?', suspects: [{ job: 'bytes', bid: 'text?', laneToken: 'text?' }] },
    reply: findings,
  },
  sweep_workers: {
    arguments: { suspects: [{ worker: 'text', bid: 'text?' }] },
    reply: findings,
  },
  sweep_lanes: {
    arguments: { tokens: ['bytes'] },
    reply: findings,
  },
  sweep_joins: {
    arguments: {
      where: 'joins|joins_of|joins_into|joins_expiring|open_keys|open_keys_since',
      token: 'text?',
      names: ['bytes'],
    },
    reply: findings,
  },
  sweep_triggers: {
    arguments: { names: ['text'] },
    reply: findings,
  },
  sweep_topics: {
    arguments: { owner: 'text?', topics: ['text'] },
    reply: 'number',
  },
  sweep_delayed: {
    arguments: { topic: 'text', from: 'number', added: 'number', members: 'number', bytes: 'number' },
    reply: {
      from: 'number',
      added: 'number',
      members: 'number',
      bytes: 'number',
      isFinished: 'flag',
      hasTextsWithoutEntry: 'flag',
      client: 'text?',
      findings,
    },
  },
  sweep_delayed_texts: {
    arguments: { topic: 'text', ids: ['bytes'] },
    reply: findings,
  },
  sweep_delayed_held: {
    arguments: { tokens: ['text'] },
    reply: findings,
  },
  sweep_gauges: {
    arguments: { what: 'batches|dead_letters', token: 'text' },
    reply: findings,
  },
} as const satisfies Record<string, Contract>;

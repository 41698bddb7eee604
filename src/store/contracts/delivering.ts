import type { Contract } from '../contract.ts';

const q = 'main|aux';

/** A job that a worker holds, with its lease. The script changes nothing if the lease has expired. */
export const held = { q, worker: 'text', job: 'bytes', lease: 'digits', leaseMs: 'number' } as const;

/** Maximum number of records that the delivery log keeps; 0 turns it off. */
const deliveryLog = 'number';

/**
 * `job` may be missing if the script can make its bytes from `bid`: if it delivers this batch, packed as
 * this bus packs jobs. `record` is what the delivery log keeps of an accepted batch; undefined if the log
 * is off.
 */
const finished = {
  worker: 'text',
  job: 'bytes?',
  lease: 'digits',
  bid: 'text?',
  heal: 'number',
  tookMs: 'number',
  record: 'text?',
} as const;

/**
 * `laneLimit` is the maximum number of deliveries in flight of a subscriber that set none itself, and
 * `laneLimitMax` that of any subscriber. A delivery that takes longer than `slowMs` makes its subscriber
 * slow.
 */
export const lanes = {
  q,
  leaseMs: 'number',
  laneLimit: 'number',
  laneLimitMax: 'number',
  slowMs: 'number',
  deliveryLog,
} as const;

/** The client that asks; undefined for root. */
const client = 'text?';

/**
 * A step of a bulk (a retry or purge of many dead letters) through the letters of one subscriber; without `token`, of
 * all.
 */
const bulkStep = { owner: 'text', id: 'text', queue: 'number', token: client, max: 'number' } as const;
/**
 * `lost`: another worker has made this step, or the bulk was cancelled. `next`: this queue is done, and another
 * follows.
 */
const bulkState = 'lost|going|next|over';

export const deliveringContracts = {
  acquire: {
    arguments: {
      ...lanes,
      finished: [finished],
      workers: ['text'],
      kind: 'regular|spare|quarantine',
      uidSeed: 'text',
    },
    reply: ['bytes'],
  },
  ack: {
    arguments: { ...lanes, ...finished },
    reply: { held: 'flag', removed: 'number', left: 'number' },
  },
  nack: {
    arguments: {
      ...held,
      delayMs: 'number',
      bid: 'text?',
      damage: 'number',
      throttleMs: 'number',
      attempt: 'text?',
      gone: 'text?',
      isUncounted: 'flag',
    },
    reply: { held: 'flag', paused: 'flag' },
  },
  bury: {
    arguments: {
      ...held,
      bid: 'text',
      damage: 'number',
      throttleMs: 'number',
      attempt: 'text',
      reason: 'text',
    },
    reply: { held: 'flag', buried: 'number' },
  },
  condemn: {
    arguments: { worker: 'text' },
    reply: { bid: 'text?', token: 'text?', buried: 'number' },
  },
  heartbeat: {
    arguments: { leaseMs: 'number', leases: [{ worker: 'text', lease: 'digits' }] },
    reply: ['text'],
  },
  retire: {
    arguments: { q, workers: ['text'] },
    reply: 'number',
  },
  run_job: {
    arguments: { q, job: 'bytes' },
    reply: 'ok|job_not_found|job_not_scheduled',
  },
  retry_batch: {
    arguments: { clients: ['text'], bid: 'text' },
    reply: 'ok|delivery_not_found|delivery_not_waiting|delivery_paused',
  },
  revive: {
    arguments: { client, bids: ['text'] },
    reply: [{ outcome: 'ok|dead_letter_not_found|subscriber_not_found', token: 'text?', events: 'number?' }],
  },
  purge: {
    arguments: { client, deliveryLog, bids: ['text'] },
    reply: 'number',
  },
  begin_bulk: {
    arguments: {
      owner: 'text',
      id: 'text',
      act: 'retry|purge',
      reason: 'text?',
      fromMs: 'digits?',
      untilMs: 'number?',
      queues: 'text',
      queueCount: 'number',
      job: 'bytes',
    },
    reply: 'flag',
  },
  confirm_bulk: {
    arguments: { owner: 'text', id: 'text', job: 'bytes' },
    reply: 'flag',
  },
  cancel_bulk: {
    arguments: { owner: 'text', id: 'text' },
    reply: 'flag',
  },
  count_bulk: {
    arguments: bulkStep,
    reply: { state: bulkState, looked: 'number' },
  },
  retry_bulk: {
    arguments: bulkStep,
    reply: { state: bulkState, revived: [{ token: 'text', events: 'number' }] },
  },
  purge_bulk: {
    arguments: { ...bulkStep, deliveryLog },
    reply: { state: bulkState, purged: 'number' },
  },
} as const satisfies Record<string, Contract>;

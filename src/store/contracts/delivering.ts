import type { Contract } from '../contract.ts';

const q = 'main|aux';

/**
 * A job that a worker holds under a lease, its right to the job for a limited time. A script that gets these fields
 * changes nothing if the lease has expired.
 */
export const heldJob = { q, worker: 'text', job: 'bytes', lease: 'digits', leaseMs: 'number' } as const;

/** The maximum number of records that the delivery log keeps. With 0 the log is off. */
const deliveryLog = 'number';

/**
 * A job that a worker has finished:
 *
 * - `bid`: the UID of the batch that the job has delivered. Undefined if the job was not a delivery.
 * - `heal`: the health points that the subscriber gains by an accepted batch.
 * - `record`: the entry of an accepted batch in the delivery log. Undefined if the log is off, or if the batch was not
 *   sent because its subscriber had left.
 */
const finished = {
  worker: 'text',
  job: 'bytes',
  lease: 'digits',
  bid: 'text?',
  heal: 'number',
  tookMs: 'number',
  record: 'text?',
} as const;

/**
 * Arguments about lanes. A lane limits how many deliveries to one subscriber may be in flight: at most the subscriber's
 * own `max_in_flight` or, without it, `laneLimit`, and never more than `laneLimitMax`. A subscriber is slow if a
 * delivery to it takes longer than `slowMs`.
 */
export const lanes = {
  q,
  leaseMs: 'number',
  laneLimit: 'number',
  laneLimitMax: 'number',
  slowMs: 'number',
  deliveryLog,
} as const;

/**
 * The callback that the worker got with the job. If the subscriber has another callback by now, a failed delivery does
 * not delay later deliveries. Undefined if the subscriber had left.
 */
const callback = 'text?';

/** The subscriber whose dead letters are wanted. Undefined stands for all subscribers. */
const token = 'text?';

/** The subscribers whose batches are wanted. An empty list stands for all subscribers. */
const tokens = ['text'] as const;

/**
 * The arguments of one step of a bulk operation: a script call that counts, retries or purges up to `max` dead letters.
 *
 * - `token`: the subscriber of these dead letters. Undefined if the operation is for all subscribers.
 * - `listIndex`: the place of this subscriber in the operation's list of subscribers. 0 if the operation is for all.
 */
const bulkStep = { owner: 'text', id: 'text', listIndex: 'number', token: 'text?', max: 'number' } as const;
/**
 * The result of one step of a bulk operation (the retry or purge of many dead letters):
 *
 * - `going`: there are more dead letters, and the next step continues after the last one of this step;
 * - `next`: this subscriber has no more dead letters, and the next step is for the next subscriber in the list;
 * - `over`: the operation has looked at all dead letters;
 * - `lost`: the step changed nothing. The operation has ended, or was cancelled or replaced, or another worker has
 *   finished with this subscriber.
 */
const bulkState = 'lost|going|next|over';

/**
 * Fields of a subscriber's hash that a delivery needs. The script `acquire` replies with their values in this order.
 */
export const DELIVERY_FIELDS = [
  'callback',
  'uuid',
  'subscribed_at',
  'health_points',
  'max_attempts',
  'max_age',
  'signing',
] as const;

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
  nack: {
    arguments: {
      ...heldJob,
      delayMs: 'number',
      bid: 'text?',
      damage: 'number',
      throttleMs: 'number',
      attempt: 'text?',
      gone: 'text?',
      callback,
      isUncounted: 'flag',
    },
    reply: { held: 'flag', paused: 'flag' },
  },
  bury: {
    arguments: {
      ...heldJob,
      bid: 'text',
      damage: 'number',
      throttleMs: 'number',
      callback,
      attempt: 'text',
      reason: 'text',
    },
    reply: { held: 'flag', buried: 'number', dropped: 'number', isGone: 'flag' },
  },
  condemn: {
    arguments: { worker: 'text', heldBid: 'text?' },
    reply: { bid: 'text?', token: 'text?', buried: 'number', dropped: 'number' },
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
    arguments: { tokens, bid: 'text' },
    reply: 'ok|delivery_not_found|delivery_not_waiting|delivery_paused',
  },
  bury_batch: {
    arguments: { tokens, bid: 'text' },
    reply: { outcome: 'ok|delivery_not_found|delivery_not_waiting', token: 'text?', events: 'number' },
  },
  revive: {
    arguments: { token, bids: ['text'] },
    reply: [{ outcome: 'ok|dead_letter_not_found|subscriber_not_found', token: 'text?', events: 'number?' }],
  },
  purge: {
    arguments: { token, deliveryLog, bids: ['text'] },
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
      listLength: 'number',
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
  keep_bulk: {
    arguments: { owner: 'text', id: 'text' },
    reply: 'flag',
  },
  count_bulk: {
    arguments: bulkStep,
    reply: bulkState,
  },
  retry_bulk: {
    arguments: bulkStep,
    reply: { state: bulkState, revived: [{ token: 'text', events: 'number' }] },
  },
  purge_bulk: {
    arguments: { ...bulkStep, deliveryLog },
    reply: bulkState,
  },
} as const satisfies Record<string, Contract>;

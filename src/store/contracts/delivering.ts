import type { Contract } from '../contract.ts';

const q = 'main|aux';

/** How a worker names the job that it holds. */
const held = { q, worker: 'text', job: 'bytes', lease: 'digits', leaseMs: 'number' } as const;

/** `job` may be missing where it is the delivery of the batch `bid`, packed as this bus packs it. */
const finished = {
  worker: 'text',
  job: 'bytes?',
  lease: 'digits',
  bid: 'text?',
  heal: 'number',
  tookMs: 'number',
} as const;

/** `laneLimit` holds unless the subscriber asked for another width, which is `laneLimitMax` at most. */
const lanes = { q, leaseMs: 'number', laneLimit: 'number', laneLimitMax: 'number' } as const;

/** The token of the client that asks; missing: root asks. */
const client = 'text?';

export const deliveringContracts = {
  acquire: {
    arguments: { ...lanes, finished: [finished], workers: ['text'] },
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
    },
    reply: 'flag',
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
  heartbeat: {
    arguments: { leaseMs: 'number', leases: [{ worker: 'text', lease: 'digits' }] },
    reply: ['text'],
  },
  retire: {
    arguments: { q, workers: ['text'] },
    reply: 'number',
  },
  revive: {
    arguments: { client, bids: ['text'] },
    reply: [{ outcome: 'ok|dead_letter_not_found|subscriber_not_found', token: 'text?', events: 'number?' }],
  },
  purge: {
    arguments: { client, bids: ['text'] },
    reply: 'number',
  },
} as const satisfies Record<string, Contract>;

import type { Contract } from '../contract.ts';

/** The subscribers whose batches are wanted. An empty list stands for all subscribers. */
const tokens = ['text'] as const;

/**
 * The entries of a listing of batches, sorted by `placeMs` and then by `id`.
 * - `placeMs`: when the batch was accepted, was dropped or became a dead letter; for any other batch, when it was
 *   created.
 * - `record`: the batch's entry in the delivery log. Only batches that were accepted or dropped have it.
 * - `createdMs` and all fields after it: only for batches without `record`. `firstAttempt` and `lastAttempts` are JSON.
 */
const entries = [
  {
    id: 'text',
    subscriber: 'text',
    state: 'open|ready|in_flight|retrying|paused|taken|dead|dropped',
    placeMs: 'text',
    record: 'text?',
    createdMs: 'number?',
    closedMs: 'number?',
    diedMs: 'number?',
    heldMs: 'number?',
    events: 'number?',
    attempts: 'number?',
    reason: 'text?',
    firstAttempt: 'text?',
    lastAttempts: ['text'],
  },
] as const;

export const recordsContracts = {
  record_call: {
    arguments: {
      maxEntries: 'digits',
      action: 'text',
      role: 'text',
      client: 'text?',
      target: 'text?',
      address: 'text',
      status: 'digits',
      code: 'text?',
      subscriptions: 'digits?',
    },
    reply: 'text',
  },
  list_deliveries: {
    arguments: {
      tokens,
      state: 'text?',
      reason: 'text?',
      sinceMs: 'number',
      untilMs: 'number?',
      placeMs: 'number?',
      placeId: 'text?',
      limit: 'number',
    },
    reply: { entries, nextMs: 'text?', nextId: 'text?', looked: 'number', skipped: 'text?' },
  },
  find_delivery: {
    arguments: { tokens, id: 'text', state: 'text?', place: 'text' },
    reply: {
      entries,
      looked: 'number',
      place: 'text',
      skipped: 'text?',
      waitsFor: 'resume|older_batch|other_batch|room|worker|time?',
      nextMs: 'number?',
    },
  },
} as const satisfies Record<string, Contract>;

import type { Contract } from '../contract.ts';

export const LIMITS = {
  idempotencyWindowMs: 'number',
  maxTopics: 'number',
  maxClientTopics: 'number',
  maxClientKeys: 'number',
  maxOutboxBytes: 'number',
} as const;

/** The outcomes of a publication, separated by bars. The header of publish.lua explains them. */
export const OUTCOMES =
  'accepted|repeated|claimed_by_other|key_reused|no_room|owns_too_many|too_many_keys|outbox_full';

/**
 * A topic that got events in a script call. `subscribers` are tokens, one on each line (lua/publishing/storing.lua).
 */
export const PUBLISHED = { topic: 'text', events: 'number', bytes: 'number', subscribers: 'text' } as const;

export const publishingContracts = {
  publish: {
    arguments: {
      uidSeed: 'text',
      ...LIMITS,
      publications: [
        { topic: 'text', client: 'text', digest: 'text?', fingerprint: 'bytes?', events: ['bytes'] },
      ],
    },
    reply: {
      outcomes: [OUTCOMES],
      subscribers: ['number'],
      published: [PUBLISHED],
    },
  },
  send_test: {
    arguments: { token: 'text', uidSeed: 'text', event: 'text' },
    reply: { bid: 'text?' },
  },
  read_outbox: {
    arguments: {
      partition: 'text?',
      last: 'number?',
      count: 'number?',
      bytes: 'number?',
      late: ['text'],
      maxEntries: 'number',
      maxBytes: 'number',
      worker: 'text?',
      lease: 'digits?',
      leaseMs: 'number?',
    },
    reply: { entries: ['bytes'], behind: ['number'], ended: 'flag' },
  },
  apply_outbox: {
    arguments: {
      uidSeed: 'text',
      maxTopics: 'number',
      maxClientTopics: 'number',
      sources: [{ source: 'text', entries: ['bytes'] }],
    },
    reply: {
      isLost: 'flag',
      applied: ['number'],
      published: [{ ...PUBLISHED, isForeign: 'flag' }],
      refused: [{ topic: 'text', reason: 'text', events: 'number' }],
      failure: 'text?',
      mayBeUnused: ['text'],
    },
  },
  spend: {
    arguments: {
      burstMs: 'number',
      eventsPerSecond: 'number',
      bytesPerSecond: 'number',
      demands: [{ client: 'text', events: 'number', bytes: 'number', isAdmitted: 'flag' }],
    },
    reply: [{ letIn: 'flag', eventsFullInMs: 'number', bytesFullInMs: 'number' }],
  },
} as const satisfies Record<string, Contract>;

import type { Contract } from '../contract.ts';

/**
 * A counter. `field` is its field in the hash `counters`. `topic` or `subscriber` says what the counter is about; a
 * counter of the whole bus has neither. After that topic or subscriber was removed, the script `fold` adds the
 * counter's value to the field that `total` names.
 */
export const series = { field: 'bytes', total: 'bytes?', topic: 'text?', subscriber: 'text?' } as const;

export const metricsContracts = {
  count: {
    arguments: { process: 'text', flush: 'number', counts: [{ ...series, count: 'digits' }] },
    reply: 'flag',
  },
  fold: {
    arguments: { series: [series] },
    reply: 'number',
  },
  sample: {
    arguments: {
      fineMs: 'number',
      fineKept: 'number',
      coarseMs: 'number',
      coarseKept: 'number',
      standings: 'text?',
      beforeMs: 'number',
      samples: [{ topic: 'text?', subscriber: 'text?', figures: ['number'], before: ['number'] }],
    },
    reply: 'flag',
  },
  census: {
    arguments: { place: 'text' },
    reply: {
      place: 'text',
      nowMs: 'number',
      standings: 'text?',
      subscribers: [
        {
          token: 'text',
          events: 'number',
          oldestAgeMs: 'number',
          deadLetters: 'number',
          bytes: 'number',
          healthPoints: 'number?',
          isPaused: 'flag',
        },
      ],
    },
  },
  report: {
    arguments: { reports: [{ field: 'bytes', from: 'digits', to: 'digits' }] },
    reply: 'flag',
  },
} as const satisfies Record<string, Contract>;

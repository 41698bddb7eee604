import type { Contract } from '../contract.ts';

/** A figure about a topic or a subscriber; about neither if both are missing. */
const series = { field: 'bytes', total: 'bytes?', topic: 'text?', subscriber: 'text?' } as const;

export const metricsContracts = {
  count: {
    arguments: { process: 'text', flush: 'number', counts: [{ ...series, count: 'digits' }] },
    reply: 'flag',
  },
  fold: {
    arguments: { series: [series] },
    reply: 'number',
  },
  report: {
    arguments: { reports: [{ field: 'bytes', from: 'digits', to: 'digits' }] },
    reply: 'number',
  },
} as const satisfies Record<string, Contract>;

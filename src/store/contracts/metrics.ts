import type { Contract } from '../contract.ts';

export const metricsContracts = {
  count: {
    arguments: { process: 'text', flush: 'number', counts: [{ field: 'bytes', count: 'digits' }] },
    reply: 'flag',
  },
  report: {
    arguments: { reports: [{ field: 'bytes', from: 'digits', to: 'digits' }] },
    reply: 'number',
  },
} as const satisfies Record<string, Contract>;

import type { Contract } from '../contract.ts';

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
    },
    reply: 'text',
  },
} as const satisfies Record<string, Contract>;

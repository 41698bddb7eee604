import { z } from 'zod';
import { BusError } from '../errors.ts';

/** The schema of the query parameter `client`: the client whose triggers or joins (`what`) a call is about. */
export const clientField = (what: string) => ({
  client: z
    .string('must be given once')
    .min(1, 'is empty')
    .optional()
    .describe(`Whose ${what}; for root and viewers.`),
});

/** Returns the error for a parameter `client` that breaks `rule`. */
export function badClient(rule: string): BusError {
  return new BusError('bad_query', `client ${rule}`, { members: { field: 'client' } });
}

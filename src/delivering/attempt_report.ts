import { z } from 'zod';

/**
 * A failed attempt, in the form that Redis stores and the API shows. The schema is not in attempt.ts, because delivery
 * threads load attempt.ts: loading zod too would take an eighth of the CPU of their start.
 */
export const ATTEMPT = z.object({
  at: z.int().describe('When the attempt began.'),
  status: z.int().nullable().describe('Null if no answer came, or if the batch is of a join.'),
  duration_ms: z.int(),
  reason: z.string(),
  answer: z.string().nullable().describe('The beginning of the body of the answer.'),
});
export type AttemptReport = z.infer<typeof ATTEMPT>;

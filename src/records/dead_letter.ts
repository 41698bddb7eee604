import { z } from 'zod';
import { BusError } from '../errors.ts';
import { NAMED } from '../routing/schemas.ts';
import type { Delivery } from './delivery.ts';

/** A dead letter as listings show it. `id` is the id of its batch. Times are in ms, by Redis's clock. */
export const DEAD_LETTER = z
  .object({
    id: z.string().describe('The id of its batch, which was the `webhook-id` of its deliveries.'),
    subscriber: z.string(),
    join: z
      .string()
      .optional()
      .describe('If it is a batch of a join: its name. The subscriber is its client.'),
    reason: z.string().describe('Why it is not tried any more: `max_attempts`, `max_age`, and so on.'),
    created_at: z.int().describe('When its batch was opened.'),
    died_at: z.int(),
    attempts: z.int(),
    event_count: z.int(),
  })
  .register(NAMED, { name: 'DeadLetter' });
export type DeadLetter = z.infer<typeof DEAD_LETTER>;

/** Returns a batch in the state `dead` as the calls under `/dead_letters` show it. */
export function deadLetterOf(delivery: Delivery): DeadLetter {
  const { id, subscriber, reason, opened_at, ended_at, attempt_count, event_count } = delivery;
  const times = { created_at: opened_at, died_at: ended_at ?? 0 };
  return { id, subscriber, reason: reason ?? '', ...times, attempts: attempt_count, event_count };
}

/**
 * Yields a dead letter with its events as JSON, in pieces, because the events can be hundreds of megabytes. Throws
 * dead_letter_not_found if the dead letter is deleted meanwhile.
 */
export async function* wholeLetterJson(
  letter: DeadLetter,
  slices: AsyncIterable<readonly string[]>,
): AsyncGenerator<string> {
  yield `${JSON.stringify(letter).slice(0, -1)},"events":[`;
  let count = 0;
  for await (const slice of slices) for (const event of slice) yield count++ === 0 ? event : `,${event}`;
  if (count < letter.event_count)
    throw new BusError('dead_letter_not_found', 'the dead letter was taken away while it was read');
  yield ']}';
}

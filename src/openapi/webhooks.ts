import type { z } from 'zod';
import { BID, DELIVERED_EVENT } from './examples.ts';
import type { Schemas } from './json_schema.ts';
import type { OpenApiDocument, Parameter } from './openapi.ts';

const header = (name: string, required: boolean, description: string, example: string): Parameter => ({
  name,
  in: 'header',
  required,
  description,
  schema: { type: 'string' },
  example,
});

/** Describes deliveries: what the bus sends to callbacks, and what the bus does after each kind of answer. */
export function webhooks(delivered: z.ZodType, schemas: Schemas): OpenApiDocument['webhooks'] {
  return {
    delivery: {
      post: {
        operationId: 'delivery',
        tags: ['Deliveries'],
        summary: 'A batch of events',
        description:
          'Sent when the batch has `max` events, or `timeout` ms after its first one. Any 2xx accepts it. Anything else, a redirect too, is a failure, and the batch is sent again; so is one whose answer was lost, under the same `webhook-id`.',
        security: [{ uuid: [] }],
        'x-roles': [],
        parameters: [
          header('webhook-id', true, 'The id of the batch, the same at every attempt.', BID),
          header('routemaster-attempt', true, 'The number of this attempt, from 1.', '1'),
          header(
            'webhook-timestamp',
            false,
            'The second of this attempt; only if deliveries are signed.',
            '1795171447',
          ),
          header(
            'webhook-signature',
            false,
            'The signatures (Standard Webhooks), separated by spaces; only if deliveries are signed.',
            'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
          ),
          header(
            'routemaster-gap',
            false,
            'A drop notice, as a dictionary of structured fields (RFC 9651); only after events were dropped.',
            'batches=2, events=15, from=1795171446400, to=1795171447900, topics=("orders";events=9 "users";events=6)',
          ),
        ],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: schemas.output(delivered), example: [DELIVERED_EVENT] } },
        },
        responses: {
          '2XX': { description: 'Accepts the batch. The body is not read.' },
          '410': { description: 'The callback is gone: the subscriber is paused until it subscribes again.' },
          default: {
            description: 'A failure. The batch is sent again, after `Retry-After` at the earliest.',
            headers: { 'Retry-After': { description: 'In seconds, or a date.', schema: { type: 'string' } } },
          },
        },
      },
    },
  };
}

import { z } from 'zod';
import { allows } from '../../authentication/scope.ts';
import { BusError } from '../../errors.ts';
import { DELIVERED_EVENT } from '../../publishing/event_schema.ts';
import { clientOf } from '../../routing/caller.ts';
import { DEFAULT_LISTED, LIMIT, nextLink, PLACE_MEANING, PLACE_RULE } from '../../routing/paging.ts';
import { parameters } from '../../routing/query.ts';
import { ALL, BOTH, type Input, NO_CONTENT, NOTHING, ok, type Route, route } from '../../routing/route.ts';
import { NAMED } from '../../routing/schemas.ts';
import type { Reply } from '../../store/contracts.ts';
import type { Partitions } from '../../store/partitions.ts';
import { TOPIC_NAMED, TOPIC_PARAMS, type TopicParams } from '../../subscribing/topics_api.ts';

/** Maximum bytes of events on a page. The event that reaches this size is the last one on its page. */
const MAX_PAGE_BYTES = 1_048_576;

interface EventParams extends TopicParams {
  id: string;
}

const EVENT_PARAMS: Input<EventParams> = {
  schema: z.object({ ...TOPIC_NAMED, id: z.string().describe('The id of the event.') }),
  wording: TOPIC_PARAMS.wording,
};

const PAGE = parameters({
  limit: LIMIT,
  after: z
    .string(PLACE_RULE)
    .regex(/^\d{1,15}-\d{1,15}$/, PLACE_RULE)
    .transform(readPlace)
    .optional()
    .describe(PLACE_MEANING),
});

const DELAYED = z.array(
  z
    .object({
      at: z.int().describe('When it is due, in ms since 1970.'),
      event: DELIVERED_EVENT,
    })
    .register(NAMED, { name: 'DelayedEvent' }),
);
export type DelayedReport = z.infer<typeof DELAYED>[number];

/**
 * `/topics/:name/delayed`: lists and deletes delayed events. Allowed for the publisher of the topic and for root;
 * viewers may list them.
 */
export function delayedApi({ partitions }: { partitions: Partitions }): Route[] {
  return [
    route('GET /topics/:name/delayed', ALL, {
      params: TOPIC_PARAMS,
      query: PAGE,
      answers: { 200: DELAYED },
      errors: ['bad_topic', 'topic_not_found'],
      async handle({ caller, path, params: { name: topic }, query: { limit, after } }) {
        const found = await partitions.ofTopic(topic).run('list_delayed', {
          topic,
          client: clientOf(caller),
          limit: limit ?? DEFAULT_LISTED,
          maxBytes: MAX_PAGE_BYTES,
          ...after,
        });
        refuse(found.outcome, topic);
        const { events, hasMore } = found;
        const last = hasMore ? events.at(-1) : undefined;
        const headers = last && nextLink(path, { limit, after: `${last.at}-${last.serial}` });
        return { ...ok(json(events)), headers, priceInCalls: 0 };
      },
    }),
    route('DELETE /topics/:name/delayed/:id', BOTH, {
      action: 'delayed_event.delete',
      params: EVENT_PARAMS,
      answers: NOTHING,
      errors: ['bad_topic', 'topic_not_found', 'delayed_event_not_found'],
      async handle({ caller, params: { name: topic, id } }) {
        if (caller.role === 'client' && !allows(caller.scopes?.publish, topic)) throw forbidden(topic);
        const client = clientOf(caller);
        const outcome = await partitions.ofTopic(topic).run('delete_delayed', { topic, client, id });
        refuse(outcome, topic);
        return NO_CONTENT;
      },
    }),
  ];
}

function refuse(outcome: Reply<'delete_delayed'>, topic: string): void {
  if (outcome === 'topic_not_found') throw new BusError(outcome, `there is no topic ${topic}`);
  if (outcome === 'forbidden') throw forbidden(topic);
  if (outcome === 'delayed_event_not_found')
    throw new BusError(
      outcome,
      `no event with this id waits in ${topic}; it may have been published or deleted`,
    );
}

function forbidden(topic: string): BusError {
  return new BusError(
    'forbidden',
    `only the publisher of ${topic}, or root, may see and delete what waits in it`,
  );
}

/** The JSON text of an event is not parsed, so that large numbers keep their digits. */
async function* json(events: Reply<'list_delayed'>['events']): AsyncGenerator<string> {
  yield `[${events.map(({ at, text }) => `{"at":${at},"event":${text}}`).join(',')}]`;
}

/**
 * Reads the parameter `after`, such as `1767225600000-42`: the page begins behind the delayed event with this due time
 * and this serial number. Delayed events are sorted by due time, then by serial number, which counts them in the order
 * in which they were accepted.
 */
function readPlace(text: string): { afterMs: number; afterSerial: number } {
  const [at, serial] = text.split('-').map(Number);
  return { afterMs: at ?? 0, afterSerial: serial ?? 0 };
}

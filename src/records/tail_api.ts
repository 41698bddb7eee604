import { z } from 'zod';
import type { PublicNames } from '../authentication/public_names.ts';
import { ONCE, parameters } from '../routing/query.ts';
import { ok, type Route, route, WATCHERS } from '../routing/route.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../routing/topic_name.ts';
import { TAIL_ENTRY, type Tail } from './tail.ts';

const QUERY = parameters({
  topic: z
    .string(ONCE)
    .regex(TOPIC_NAME, `must be ${TOPIC_NAME_RULE}`)
    .optional()
    .describe('Only events of this topic.'),
});

/** `/tail`: shows events as they are accepted. */
export function tailApi({ tail, publicNames }: { tail: Tail; publicNames: PublicNames }): Route[] {
  return [
    route('GET /tail', WATCHERS, {
      query: QUERY,
      answers: { 200: z.array(TAIL_ENTRY) },
      async handle({ caller, query }) {
        const entries = await tail.watch(query.topic);
        return { ...ok(await publicNames.shownTo(caller, entries, 'client')), priceInCalls: 0 };
      },
    }),
  ];
}

import { type Content, type Html, html } from '../html.ts';
import { type Delivery, STATES } from '../records/delivery.ts';
import { ALL, type Route } from '../routing/route.ts';
import type { ApiCalls } from './api_calls.ts';
import { outcomeShown } from './batch_parts.ts';
import { nameOf, PATH, stateOf } from './delivery_page.ts';
import { ago, number } from './format.ts';
import { live } from './layout.ts';
import { linkToOwner } from './links.ts';
import { page } from './page.ts';
import { ANY_QUERY, type Column, choices, nextPage, pathWith, table } from './parts.ts';

/** The states by which the list can be filtered, with the texts of their links. */
const CHOICES = { '': 'all', ...Object.fromEntries(STATES.map((state) => [state, nameOf(state)])) };

/** A page that lists batches with their states. */
export function deliveriesPages(api: ApiCalls): Route[] {
  return [
    page(PATH, ALL, {
      query: ANY_QUERY,
      async show(call) {
        const { state, subscriber } = call.query;
        const query = { limit: '100', ...call.query };
        const { body, next } = await api.call<Delivery[]>('GET /deliveries', call, { query });
        const nowMs = await api.nowMs();
        return {
          title: 'Deliveries',
          current: PATH,
          body: live('deliveries', pathWith(PATH, call.query), [
            html`<h1>Deliveries${subscriber && html` of <span class="mono">${subscriber}</span>`}</h1>`,
            choices(CHOICES, state ?? '', (each) => pathWith(PATH, { subscriber, state: each })),
            deliveriesTable(
              body,
              nowMs,
              state || subscriber ? 'Nothing matches.' : 'Nothing was queued in the last day.',
            ),
            nextPage(PATH, next),
          ]),
        };
      },
    }),
  ];
}

export function linkToDeliveries(subscriber: string): string {
  return pathWith(PATH, { subscriber });
}

const SUBSCRIBER: Column<Delivery> = { name: 'Subscriber', cell: linkToOwner };

/**
 * Returns a table of batches, newest first. `isOfOne` leaves out the column of the subscriber, which is the same for
 * all. `more` are further columns at the end.
 */
export function deliveriesTable(
  deliveries: readonly Delivery[],
  nowMs: number,
  empty: Content,
  { isOfOne = false, more = [] }: { isOfOne?: boolean; more?: readonly Column<Delivery>[] } = {},
): Html {
  return table<Delivery>(
    [
      { name: 'Batch', cell: ({ id }) => html`<a class="mono" href="${PATH}/${id}">${id}</a>` },
      { name: 'State', cell: stateOf },
      ...(isOfOne ? [] : [SUBSCRIBER]),
      { name: 'Events', isAmount: true, cell: ({ event_count }) => number(event_count) },
      { name: 'Attempts', isAmount: true, cell: ({ attempt_count }) => attempt_count },
      { name: 'Last answer', cell: lastAnswer },
      { name: 'Opened', cell: ({ opened_at }) => ago(opened_at, nowMs) },
      { name: 'Ended', cell: ({ ended_at }) => ended_at !== null && ago(ended_at, nowMs) },
      ...more,
    ],
    deliveries,
    empty,
  );
}

function lastAnswer({ attempts, join }: Delivery): Content {
  const last = attempts.at(-1);
  return last && outcomeShown(last, join);
}

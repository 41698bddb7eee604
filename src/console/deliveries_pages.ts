import { type Content, html } from '../html.ts';
import { type Delivery, STATES } from '../records/delivery.ts';
import { ALL, type Route } from '../routing/route.ts';
import type { ApiCalls } from './api_calls.ts';
import { outcomeShown } from './batch_parts.ts';
import { deliveryState, findForm, nameOf, PATH } from './delivery_page.ts';
import { ago, number } from './format.ts';
import { linkToSubscriber } from './links.ts';
import { listingPage } from './listing_page.ts';
import { type Columns, choices, pathWith } from './parts.ts';

const CHOICES = { '': 'all', ...Object.fromEntries(STATES.map((state) => [state, nameOf(state)])) };

export function deliveriesPage(api: ApiCalls): Route {
  return listingPage<Delivery>(
    api,
    { path: PATH, roles: ALL, title: 'Deliveries', name: 'GET /deliveries', liveId: 'deliveries' },
    ({ query: { state, subscriber } }, nowMs) => ({
      above: [
        html`<h1>Deliveries${subscriber && html` of <span class="mono">${subscriber}</span>`}</h1>`,
        findForm(),
        choices(CHOICES, state ?? '', (each) => pathWith(PATH, { subscriber, state: each })),
      ],
      columns: deliveryColumns(nowMs),
      empty: state || subscriber ? 'Nothing matches.' : 'Nothing was queued in the last day.',
    }),
  );
}

/** Returns the columns of a table of batches. With `isOfOneSubscriber`, leaves out the column `Subscriber`. */
export function deliveryColumns(nowMs: number, isOfOneSubscriber = false): Columns<Delivery> {
  return [
    { name: 'Batch', cell: ({ id }) => html`<a class="mono" href="${PATH}/${id}">${id}</a>` },
    { name: 'State', cell: deliveryState },
    !isOfOneSubscriber && { name: 'Subscriber', cell: linkToSubscriber },
    { name: 'Events', isAmount: true, cell: ({ event_count }) => number(event_count) },
    { name: 'Attempts', isAmount: true, cell: ({ attempt_count }) => attempt_count },
    { name: 'Last answer', cell: lastAnswer },
    { name: 'Opened', cell: ({ opened_at }) => ago(opened_at, nowMs) },
    { name: 'Ended', cell: ({ ended_at }) => ended_at !== null && ago(ended_at, nowMs) },
  ];
}

function lastAnswer({ attempts, join }: Delivery): Content {
  const last = attempts.at(-1);
  return last && outcomeShown(last, join);
}

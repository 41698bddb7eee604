import { type Content, type Html, html } from '../html.ts';
import { ALL, type Route } from '../route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls } from './api_calls.ts';
import { ago, duration, number } from './format.ts';
import { live } from './layout.ts';
import { page } from './page.ts';
import { ANY_QUERY, nextPage, pathWith, table } from './parts.ts';

export const PATH = '/console/subscribers';

/** The list of subscribers. */
export function subscribersPages({ api }: { api: ApiCalls }): Route[] {
  return [
    page(PATH, ALL, {
      query: ANY_QUERY,
      async show(call) {
        const query = { limit: '100', ...call.query };
        const { body, next } = await api.call<SubscriberReport[]>('GET /subscriptions', call, { query });
        const nowMs = Date.now();
        const columns = [
          { name: 'Subscriber', cell: linkTo },
          { name: 'State', cell: stateOf },
          { name: 'Queued', isAmount: true, cell: ({ events }: SubscriberReport) => number(events.queued) },
          {
            name: 'Oldest',
            isAmount: true,
            cell: ({ events }: SubscriberReport) => waiting(events.oldest, nowMs),
          },
          { name: 'Delivered', isAmount: true, cell: ({ events }: SubscriberReport) => number(events.sent) },
          { name: 'Health', isAmount: true, cell: (each: SubscriberReport) => each.health_points },
          {
            name: 'Dead letters',
            isAmount: true,
            cell: (each: SubscriberReport) => number(each.dead_letters.batches),
          },
          { name: 'Last attempt', cell: (each: SubscriberReport) => ago(each.last_attempted_at, nowMs) },
        ] as const;
        const empty = html`There is no subscriber yet. A client subscribes by <code>POST /subscription</code>.`;
        return {
          title: 'Subscribers',
          current: PATH,
          body: live('subscribers', pathWith(PATH, call.query), [
            html`<h1>Subscribers</h1>`,
            table<SubscriberReport>(columns, body, empty),
            nextPage(PATH, next),
          ]),
        };
      },
    }),
  ];
}

function linkTo({ subscriber }: SubscriberReport): Html {
  return html`<a class="mono" href="${PATH}/${encodeURIComponent(subscriber)}">${subscriber}</a>`;
}

export function stateOf({ paused_at, health_points, events }: SubscriberReport): Html {
  if (paused_at !== null) return html`<span class="state warn">paused</span>`;
  if (health_points < 100 && events.queued > 0) return html`<span class="state bad">failing</span>`;
  if (health_points < 100) return html`<span class="state warn">recovering</span>`;
  return html`<span class="state good">healthy</span>`;
}

export function waiting(oldestMs: number | null, nowMs: number): Content {
  return oldestMs === null ? html`<span class="none">–</span>` : duration(Math.max(0, nowMs - oldestMs));
}

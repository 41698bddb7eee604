import { z } from 'zod';
import { BusError } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import { ALL, type Input, ROOT, type Route } from '../route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls } from './api_calls.ts';
import { ago, bytes, count, duration, number } from './format.ts';
import { live } from './layout.ts';
import { action, page } from './page.ts';
import { ANY_FIELDS, ANY_QUERY, confirmed, nextPage, pathWith, table, typeIt } from './parts.ts';

const PATH = '/console/subscribers';

export const TOKEN: Input<{ token: string }> = {
  schema: z.object({ token: z.string() }),
  wording: { code: 'subscriber_not_found', whole: 'there is no such subscriber' },
};

/** The list of subscribers, and a page for each. */
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
    page(`${PATH}/:token`, ALL, {
      params: TOKEN,
      async show(call) {
        const { token } = call.params;
        const report = await one(token, call);
        const path = `${PATH}/${encodeURIComponent(token)}`;
        const removing = api.allows('DELETE /subscribers/:token', call) && removal(token);
        return {
          title: token,
          current: PATH,
          body: html`${live('subscriber', path, shown(report))}${removing}`,
        };
        function removal(name: string): Html {
          const warning = `Deletes ${count(report.events.queued, 'queued event')}, ${count(report.dead_letters.batches, 'dead letter')}, and all subscriptions of ${name}.`;
          return confirmed(call, 'Remove this subscriber…', warning, {
            action: `${path}/remove`,
            does: `Remove ${name}`,
            content: typeIt(name),
          });
        }
      },
    }),
    action(`${PATH}/:token/remove`, ROOT, {
      action: 'subscriber.delete',
      params: TOKEN,
      form: ANY_FIELDS,
      async act(call) {
        const { token } = call.params;
        if (call.body.confirm !== token)
          throw new BusError('bad_body', `type ${token} to remove this subscriber; nothing was changed`);
        await api.call('DELETE /subscribers/:token', call, { params: { token } });
        return PATH;
      },
    }),
  ];

  /** Resolves with a subscriber. Throws subscriber_not_found. */
  async function one(token: string, call: Parameters<ApiCalls['call']>[1]): Promise<SubscriberReport> {
    const { body } = await api.call<SubscriberReport[]>('GET /subscriptions', call);
    const report = body.find(({ subscriber }) => subscriber === token);
    if (!report) throw new BusError('subscriber_not_found', TOKEN.wording.whole);
    return report;
  }
}

function linkTo({ subscriber }: SubscriberReport): Html {
  return html`<a class="mono" href="${PATH}/${encodeURIComponent(subscriber)}">${subscriber}</a>`;
}

function stateOf({ paused_at, health_points, events }: SubscriberReport): Html {
  if (paused_at !== null) return html`<span class="state warn">paused</span>`;
  if (health_points < 100 && events.queued > 0) return html`<span class="state bad">failing</span>`;
  if (health_points < 100) return html`<span class="state warn">recovering</span>`;
  return html`<span class="state good">healthy</span>`;
}

function waiting(oldestMs: number | null, nowMs: number): Content {
  return oldestMs === null ? html`<span class="none">–</span>` : duration(Math.max(0, nowMs - oldestMs));
}

function shown(report: SubscriberReport): Html {
  const { events, dead_letters, dropped } = report;
  const nowMs = Date.now();
  const figures: [string, Content][] = [
    ['State', stateOf(report)],
    ['Queued', count(events.queued, 'event')],
    ['Oldest', waiting(events.oldest, nowMs)],
    ['Delivered', count(events.sent, 'event')],
    ['Health', `${report.health_points} of 100`],
    ['Last attempt', ago(report.last_attempted_at, nowMs)],
    [
      'Dead letters',
      html`<a href="${pathWith('/console/dead_letters', { subscriber: report.subscriber })}">${count(dead_letters.batches, 'letter')}</a>`,
    ],
    ['Dropped', dropped ? count(dropped.events, 'event') : 'nothing'],
  ];
  const settings: [string, Content][] = [
    ['Callback', html`<span class="mono">${report.callback}</span>`],
    ['Events of a batch', `${report.max_events} at most, ${bytes(report.max_bytes)}`],
    ['Waits for more', duration(report.timeout)],
    ['Order', report.ordered ? 'kept across batches' : 'within a batch'],
    ['Deliveries at a time', report.max_in_flight],
    ['Gives up after', `${number(report.max_attempts)} attempts, or ${duration(report.max_age)}`],
    ['Signatures', report.signing ?? 'none'],
  ];
  return html`<h1 class="mono">${report.subscriber}</h1>
<dl class="figures">${figures.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
<h2>Topics</h2>
<p>${report.topics.length === 0 ? 'none' : report.topics.map((topic) => html`<span class="tag mono">${topic}</span> `)}</p>
<h2>Settings</h2>
<dl class="settings card">${settings.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

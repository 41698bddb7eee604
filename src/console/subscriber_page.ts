import { z } from 'zod';
import { BusError } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import type { HistoryReport } from '../metrics/history_api.ts';
import type { Delivery } from '../records/delivery.ts';
import { ALL, BOTH, type Input, ROOT, type Route } from '../route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls } from './api_calls.ts';
import { deliveriesTable, linkToDeliveries } from './deliveries_pages.ts';
import { ago, bytes, count, duration, number } from './format.ts';
import { live } from './layout.ts';
import { action, page } from './page.ts';
import { ANY_FIELDS, ANY_QUERY, boxes, confirmed, form, pathWith, typeIt } from './parts.ts';
import { plots } from './plots.ts';
import { PATH, stateOf, waiting } from './subscribers_pages.ts';

/** Number of newest batches that the page of a subscriber shows. */
const SHOWN_DELIVERIES = '10';

const TOKEN: Input<{ token: string }> = {
  schema: z.object({ token: z.string() }),
  wording: { code: 'subscriber_not_found', whole: 'there is no such subscriber' },
};

/** A page for each subscriber with its state, its newest batches, and forms to pause, resume or remove it. */
export function subscriberPage({ api }: { api: ApiCalls }): Route[] {
  return [
    page(`${PATH}/:token`, ALL, {
      params: TOKEN,
      query: ANY_QUERY,
      async show(call) {
        const { token } = call.params;
        const { range } = call.query;
        const ofIt = call.caller.role === 'client' ? {} : { subscriber: token };
        const [{ body: report }, history, deliveries] = await Promise.all([
          api.call<SubscriberReport>('GET /subscribers/:token', call, { params: { token } }),
          api.call<HistoryReport>('GET /history', call, { query: { subject: `subscriber:${token}`, range } }),
          api.call<Delivery[]>('GET /deliveries', call, { query: { ...ofIt, limit: SHOWN_DELIVERIES } }),
        ]);
        const path = `${PATH}/${encodeURIComponent(token)}`;
        const removing = api.allows('DELETE /subscribers/:token', call) && removal(token);
        return {
          title: token,
          current: PATH,
          body: [
            html`<h1 class="mono">${token}</h1>`,
            live('subscriber', pathWith(path, { range }), [
              shown(report),
              html`<div class="acts">${pausing(report.paused_at !== null)}</div>`,
              plots(history.body, path),
              html`<h2><a href="${linkToDeliveries(token)}">Deliveries</a></h2>`,
              deliveriesTable(deliveries.body, 'Nothing was queued for it in the last day.'),
              details(report),
            ]),
            removing && html`<div class="acts">${removing}</div>`,
          ],
        };
        function pausing(isPaused: boolean): Content {
          const does = isPaused ? 'Resume' : 'Pause';
          if (!api.allows(`POST /subscribers/:token/${isPaused ? 'resume' : 'pause'}`, call))
            return undefined;
          return form(call, { action: `${path}/${does.toLowerCase()}`, does: `${does} deliveries` });
        }
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
    pauseOr('pause'),
    pauseOr('resume'),
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

  /** Pauses or resumes a subscriber, and shows it again. */
  function pauseOr(does: 'pause' | 'resume'): Route {
    return action(`${PATH}/:token/${does}`, BOTH, {
      action: `subscriber.${does}`,
      params: TOKEN,
      form: ANY_FIELDS,
      async act(call) {
        await api.call(`POST /subscribers/:token/${does}`, call, { params: call.params });
        return `${PATH}/${encodeURIComponent(call.params.token)}`;
      },
    });
  }
}

const PAUSED_BY: Record<string, string> = {
  ...{ operator: 'by the operator', subscriber: 'by the subscriber' },
  callback_gone: 'as the callback answered 410',
};

/** Returns since when and by whom a subscriber is paused; empty if it is not. */
function pause({ paused_at, paused_by }: SubscriberReport, nowMs: number): [string, Content][] {
  if (paused_at === null) return [];
  return [['Paused', html`${ago(paused_at, nowMs)} ${paused_by !== null && PAUSED_BY[paused_by]}`]];
}

function shown(report: SubscriberReport): Html {
  const { events, dead_letters, dropped } = report;
  const nowMs = Date.now();
  const shown: [string, Content][] = [
    ['State', stateOf(report)],
    ...pause(report, nowMs),
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
  return boxes(shown);
}

function details(report: SubscriberReport): Html {
  const settings: [string, Content][] = [
    ['Callback', html`<span class="mono">${report.callback}</span>`],
    ['Events of a batch', `${report.max_events} at most, ${bytes(report.max_bytes)}`],
    ['Waits for more', duration(report.timeout)],
    ['Order', report.ordered ? 'kept across batches' : 'within a batch'],
    ['Deliveries at a time', report.max_in_flight],
    ['Gives up after', `${number(report.max_attempts)} attempts, or ${duration(report.max_age)}`],
    ['Signatures', report.signing ?? 'none'],
  ];
  return html`<h2>Topics</h2>
<p>${report.topics.length === 0 ? 'none' : report.topics.map((topic) => html`<span class="tag mono">${topic}</span> `)}</p>
<h2>Settings</h2>
<dl class="settings card">${settings.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

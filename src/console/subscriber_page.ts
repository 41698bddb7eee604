import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import { type Content, html } from '../html.ts';
import type { HistoryReport } from '../metrics/history_api.ts';
import type { Delivery } from '../records/delivery.ts';
import { ALL, type Route } from '../routing/route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { deliveryColumns } from './deliveries_pages.ts';
import { PATH as DELIVERIES, retryForm } from './delivery_page.ts';
import { count } from './format.ts';
import { live } from './layout.ts';
import { subscriberPath } from './links.ts';
import { forwarding, page } from './page.ts';
import { checkTyped, confirmed, form, pathWith, table, typeIt } from './parts.ts';
import { isAsked, plots } from './plots.ts';
import { details, dropNotice, figures, uuidNotice } from './subscriber_parts.ts';
import { PATH } from './subscribers_pages.ts';
import { subscriptionChange, subscriptionForm } from './subscription_form.ts';

const SHOWN_DELIVERIES = '10';

const SHOWN_RETRYING = '5';

/** A page for each subscriber with its state, its newest batches, and forms that change it. */
export function subscriberPage(api: ApiCalls, maxFormBytes: number): Route[] {
  return [
    page(`${PATH}/:token`, ALL, async (call) => {
      const { token } = call.params;
      const { range } = call.query;
      const [{ body: report }, history, deliveries] = await Promise.all([
        api.call<SubscriberReport>('GET /subscribers/:token', call, { params: { token } }),
        isAsked('plots', call.query) &&
          api.call<HistoryReport>('GET /history', call, {
            query: { subject: `subscriber:${token}`, range },
          }),
        api.call<Delivery[]>('GET /deliveries', call, {
          query: { subscriber: token, limit: SHOWN_DELIVERIES },
        }),
      ]);
      const nowMs = await api.nowMs();
      const retrying = await retryingOf(api, call, report);
      const retry = { name: '', cell: (delivery: Delivery) => retryForm(api, call, delivery) };
      const path = subscriberPath(token);
      const removing = removalForm(api, call, report);
      return {
        title: `Subscriber ${token}`,
        current: PATH,
        body: [
          html`<h1 class="mono">${token}</h1>`,
          live('subscriber', pathWith(path, { part: 'now' }), [
            figures(report, nowMs),
            html`<div class="acts">${pauseForm(api, call, report)}${testForm(api, call, report)}</div>`,
            retrying.length > 0 &&
              html`<h2>To be tried again</h2>${table([...deliveryColumns(nowMs, true), retry], retrying, '')}`,
            html`<h2><a href="${pathWith(DELIVERIES, { subscriber: token })}">Deliveries</a></h2>`,
            table(
              deliveryColumns(nowMs, call.caller.role !== 'client'),
              deliveries.body,
              'Nothing was queued for it in the last day.',
            ),
            uuidNotice(report, [...retrying, ...deliveries.body]),
            dropNotice(report, nowMs),
          ]),
          history && plots(history.body, path),
          details(report),
          call.caller.role === 'client' && subscriptionForm(call, report),
          removing && html`<div class="acts">${removing}</div>`,
        ],
      };
    }),
    subscriptionChange(api, maxFormBytes),
    ...subscriberChanges(api),
  ];
}

/**
 * Resolves with a subscriber's newest batches that wait for another attempt. If the subscriber has perfect health or an
 * empty queue, there is hardly ever such a batch. Then resolves with an empty list, without a call of the API.
 */
async function retryingOf(api: ApiCalls, call: PageCall, report: SubscriberReport): Promise<Delivery[]> {
  const { subscriber, health_points, events } = report;
  if (health_points === PERFECT_HEALTH || events.queued === 0) return [];
  const query = { subscriber, state: 'retrying', limit: SHOWN_RETRYING };
  return (await api.call<Delivery[]>('GET /deliveries', call, { query })).body;
}

function pauseForm(api: ApiCalls, call: PageCall, report: SubscriberReport): Content {
  const does = report.paused_at === null ? 'Pause' : 'Resume';
  const act = does.toLowerCase();
  if (!api.allows(`POST /subscribers/:token/${act}`, call)) return undefined;
  return form(call, { action: `${subscriberPath(report.subscriber)}/${act}`, does: `${does} deliveries` });
}

function testForm(api: ApiCalls, call: PageCall, { subscriber }: SubscriberReport): Content {
  if (!api.allows('POST /subscribers/:token/test', call)) return undefined;
  return form(call, { action: `${subscriberPath(subscriber)}/test`, does: 'Send a test event' });
}

function removalForm(api: ApiCalls, call: PageCall, report: SubscriberReport): Content {
  if (!api.allows('DELETE /subscribers/:token', call)) return undefined;
  const { subscriber, events, dead_letters } = report;
  const warning = `Deletes ${count(events.queued, 'queued event')}, ${count(dead_letters.batches, 'dead letter')}, and all subscriptions of ${subscriber}.`;
  return confirmed(call, 'Remove this subscriber…', warning, {
    action: `${subscriberPath(subscriber)}/remove`,
    does: `Remove ${subscriber}`,
    content: (fields) => typeIt(fields, subscriber),
  });
}

function subscriberChanges(api: ApiCalls): Route[] {
  return [
    forwarding(api, 'POST /subscribers/:token/test', `${PATH}/:token/test`, {
      next: (_, { delivery }: { delivery: string }) => `/console/deliveries/${delivery}`,
    }),
    ...(['pause', 'resume'] as const).map((does) =>
      forwarding(api, `POST /subscribers/:token/${does}`, `${PATH}/:token/${does}`, {
        next: ({ params }) => subscriberPath(params.token),
      }),
    ),
    forwarding(api, 'DELETE /subscribers/:token', `${PATH}/:token/remove`, {
      check: ({ body, params }) => checkTyped(body, params.token, 'subscriber'),
      next: () => PATH,
    }),
  ];
}

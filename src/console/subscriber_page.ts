import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import { BusError } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import type { HistoryReport } from '../metrics/history_api.ts';
import type { Delivery } from '../records/delivery.ts';
import type { Caller } from '../routing/caller.ts';
import { ALL, BOTH, ROOT, type Route } from '../routing/route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { deliveriesTable, linkToDeliveries } from './deliveries_pages.ts';
import { retryForm } from './delivery_page.ts';
import { count } from './format.ts';
import { live } from './layout.ts';
import { action, page } from './page.ts';
import { ANY_FIELDS, ANY_QUERY, confirmed, form, pathWith, typeIt } from './parts.ts';
import { isAsked, plots } from './plots.ts';
import { details, dropNotice, figures, TOKEN } from './subscriber_parts.ts';
import { PATH } from './subscribers_pages.ts';
import { subscriptionChange, subscriptionForm } from './subscription_form.ts';

/** Number of newest batches that the page of a subscriber lists. */
const SHOWN_DELIVERIES = '10';

const SHOWN_RETRYING = '5';

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
          isAsked('plots', call.query) &&
            api.call<HistoryReport>('GET /history', call, {
              query: { subject: `subscriber:${token}`, range },
            }),
          api.call<Delivery[]>('GET /deliveries', call, { query: { ...ofIt, limit: SHOWN_DELIVERIES } }),
        ]);
        const retrying = await retryingOf(call, report);
        const retry = [{ name: '', cell: (delivery: Delivery) => retryForm(api, call, delivery) }];
        const path = `${PATH}/${encodeURIComponent(token)}`;
        const removing = api.allows('DELETE /subscribers/:token', call) && removal(token);
        return {
          title: token,
          current: PATH,
          body: [
            html`<h1 class="mono">${token}</h1>`,
            live('subscriber', pathWith(path, { part: 'now' }), [
              figures(report),
              html`<div class="acts">${pausing(report.paused_at !== null)}${testing()}</div>`,
              retrying.length > 0 &&
                html`<h2>To be tried again</h2>${deliveriesTable(retrying, '', { isOfOne: true, more: retry })}`,
              html`<h2><a href="${linkToDeliveries(token)}">Deliveries</a></h2>`,
              deliveriesTable(deliveries.body, 'Nothing was queued for it in the last day.', {
                isOfOne: call.caller.role !== 'client',
              }),
              dropNotice(report),
            ]),
            history && plots(history.body, path),
            details(report),
            call.caller.role === 'client' && subscriptionForm(call, report),
            removing && html`<div class="acts">${removing}</div>`,
          ],
        };
        function pausing(isPaused: boolean): Content {
          const does = isPaused ? 'Resume' : 'Pause';
          if (!api.allows(`POST /subscribers/:token/${isPaused ? 'resume' : 'pause'}`, call))
            return undefined;
          return form(call, { action: `${path}/${does.toLowerCase()}`, does: `${does} deliveries` });
        }
        function testing(): Content {
          if (!api.allows('POST /subscribers/:token/test', call)) return undefined;
          return form(call, { action: `${path}/test`, does: 'Send a test event' });
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
    subscriptionChange({ api }),
    action(`${PATH}/:token/test`, BOTH, {
      action: 'subscriber.test',
      params: TOKEN,
      form: ANY_FIELDS,
      async act(call) {
        const { body } = await api.call<{ delivery: string }>('POST /subscribers/:token/test', call, {
          params: call.params,
        });
        return `/console/deliveries/${body.delivery}`;
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

  /**
   * Resolves with the newest batches of a subscriber that will be tried again. A subscriber with perfect health or an
   * empty queue has no such batches, so the API is not called.
   */
  async function retryingOf(
    call: PageCall & { caller: Caller },
    report: SubscriberReport,
  ): Promise<Delivery[]> {
    const { subscriber, health_points, events } = report;
    if (health_points === PERFECT_HEALTH || events.queued === 0) return [];
    const ofIt = call.caller.role === 'client' ? {} : { subscriber };
    const query = { ...ofIt, state: 'retrying', limit: SHOWN_RETRYING };
    return (await api.call<Delivery[]>('GET /deliveries', call, { query })).body;
  }

  /** Makes the route of a form that pauses or resumes a subscriber. The answer is the page of the subscriber. */
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

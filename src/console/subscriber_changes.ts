import type { Content } from '../html.ts';
import { BOTH, ROOT, type Route } from '../routing/route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { count } from './format.ts';
import { subscriberPath } from './links.ts';
import { action } from './page.ts';
import { checkTyped, confirmed, form, typeIt } from './parts.ts';
import { TOKEN } from './subscriber_parts.ts';
import { PATH } from './subscribers_pages.ts';

/** A form that pauses or resumes the subscriber. Undefined if the visitor may not do this. */
export function pauseForm(api: ApiCalls, call: PageCall, report: SubscriberReport): Content {
  const does = report.paused_at === null ? 'Pause' : 'Resume';
  const act = does.toLowerCase();
  if (!api.allows(`POST /subscribers/:token/${act}`, call)) return undefined;
  return form(call, { action: `${subscriberPath(report.subscriber)}/${act}`, does: `${does} deliveries` });
}

export function testForm(api: ApiCalls, call: PageCall, { subscriber }: SubscriberReport): Content {
  if (!api.allows('POST /subscribers/:token/test', call)) return undefined;
  return form(call, { action: `${subscriberPath(subscriber)}/test`, does: 'Send a test event' });
}

/** A form that removes the subscriber. */
export function removalForm(api: ApiCalls, call: PageCall, report: SubscriberReport): Content {
  if (!api.allows('DELETE /subscribers/:token', call)) return undefined;
  const { subscriber, events, dead_letters } = report;
  const warning = `Deletes ${count(events.queued, 'queued event')}, ${count(dead_letters.batches, 'dead letter')}, and all subscriptions of ${subscriber}.`;
  return confirmed(call, 'Remove this subscriber…', warning, {
    action: `${subscriberPath(subscriber)}/remove`,
    does: `Remove ${subscriber}`,
    content: (fields) => typeIt(fields, subscriber),
  });
}

/** The routes of the forms that test, pause, resume and remove one subscriber. */
export function subscriberChanges(api: ApiCalls): Route[] {
  return [
    action(`${PATH}/:token/test`, BOTH, {
      action: 'subscriber.test',
      params: TOKEN,
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
      async act(call) {
        const { token } = call.params;
        checkTyped(call.body, token, 'subscriber');
        await api.call('DELETE /subscribers/:token', call, { params: { token } });
        return PATH;
      },
    }),
  ];

  function pauseOr(does: 'pause' | 'resume'): Route {
    return action(`${PATH}/:token/${does}`, BOTH, {
      action: `subscriber.${does}`,
      params: TOKEN,
      async act(call) {
        await api.call(`POST /subscribers/:token/${does}`, call, { params: call.params });
        return subscriberPath(call.params.token);
      },
    });
  }
}

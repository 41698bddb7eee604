import type { Content } from '../html.ts';
import type { Route } from '../routing/route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { count } from './format.ts';
import { subscriberPath } from './links.ts';
import { forwarding } from './page.ts';
import { checkTyped, confirmed, form, typeIt } from './parts.ts';
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

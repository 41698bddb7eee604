import { type Html, html } from '../html.ts';
import { CLIENTS, type Route } from '../routing/route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { wordsIn } from './fields.ts';
import type { FormFields } from './filled_form.ts';
import { subscriberPath } from './links.ts';
import { action } from './page.ts';
import { checkUnchanged, folded, wasField } from './parts.ts';
import { TOKEN } from './subscriber_parts.ts';
import { PATH } from './subscribers_pages.ts';

/** The settings that are numbers: the name in `POST /subscription`, the label, and the name in `GET /subscriptions`. */
const NUMBERS = [
  ['max', 'Events of a batch', 'max_events'],
  ['max_bytes', 'Bytes of a delivery', 'max_bytes'],
  ['timeout', 'Waits for more (ms)', 'timeout'],
  ['max_in_flight', 'Deliveries at a time', 'max_in_flight'],
  ['max_attempts', 'Attempts', 'max_attempts'],
  ['max_age', 'Age (ms)', 'max_age'],
] as const;

export function subscriptionForm(call: PageCall, report: SubscriberReport): Html {
  const { subscriber, topics, callback, ordered } = report;
  const rows = Math.min(12, Math.max(3, topics.length + 1));
  const content = (fields: FormFields) =>
    html`<label>Topics ${fields.textArea('topics', html`rows="${rows}" cols="40" spellcheck="false" autocapitalize="none"`, topics.join('\n'))}</label>
<label>Callback <input ${fields.input('callback', callback)} type="url" required size="48"></label>
<div class="filter">${NUMBERS.map(([field, name, member]) => html`<label>${name} <input ${fields.input(field, report[member])} type="number" min="0" required></label>`)}</div>
<label><input ${fields.checkbox('ordered', 'yes', ordered)}> Keep the order across batches</label>
<p class="hint">A topic that you take out of the list brings no more events. If you paused the deliveries, they go on.</p>
${wasField(settingsOf(report))}`;
  const action = `${subscriberPath(subscriber)}/settings`;
  return folded(call, 'Change the subscription…', { action, does: 'Change it', content });
}

function settingsOf(report: SubscriberReport) {
  const { topics, callback, ordered } = report;
  return [topics.toSorted(), callback, ordered, ...NUMBERS.map(([, , member]) => report[member])];
}

/**
 * Makes the route that handles the form of `subscriptionForm`. The form does not show the subscription's `uuid`. The
 * route fetches it from the API and sends it back, because the API empties a `uuid` that is left out.
 */
export function subscriptionChange(api: ApiCalls): Route {
  return action(`${PATH}/:token/settings`, CLIENTS, {
    action: 'subscription.put',
    params: TOKEN,
    async act(call) {
      const { topics, callback, ordered } = call.body;
      const { params } = call;
      const { body: report } = await api.call<SubscriberReport>('GET /subscribers/:token', call, { params });
      const what = 'this subscription meanwhile; this form would replace what the page shows above';
      checkUnchanged(call.body, settingsOf(report), { code: 'bad_subscription', field: 'topics', what });
      // Only numbers that the person changed are sent. An unchanged number may be the operator's default. If it were
      // sent, it would be stored for this client, who would keep it even when the operator changes the default.
      const changed = NUMBERS.filter(
        ([field, , member]) => String(call.body[field]) !== String(report[member]),
      );
      const numbers = changed.map(([field]) => [field, Number(call.body[field])]);
      await api.call('POST /subscription', call, {
        body: {
          topics: wordsIn(topics),
          callback,
          uuid: report.uuid,
          ordered: ordered === 'yes',
          ...Object.fromEntries(numbers),
        },
      });
      return subscriberPath(params.token);
    },
  });
}

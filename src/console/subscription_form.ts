import { type Html, html } from '../html.ts';
import { CLIENTS, type Route } from '../routing/route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import { askedName } from '../subscribing/subscription_input.ts';
import { SETTING_NAMES, SETTINGS, type SettingName } from '../subscribing/subscription_settings.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { type AnyFields, wordsIn } from './fields.ts';
import type { FormFields } from './filled_form.ts';
import { subscriberPath } from './links.ts';
import { action } from './page.ts';
import { checkUnchanged, folded, wasField } from './parts.ts';
import { PATH } from './subscribers_pages.ts';

export function subscriptionForm(call: PageCall, report: SubscriberReport): Html {
  const { subscriber, topics, callback } = report;
  const rows = Math.min(12, Math.max(3, topics.length + 1));
  const content = (fields: FormFields) =>
    html`<label>Topics ${fields.textArea('topics', html`rows="${rows}" cols="40" spellcheck="false" autocapitalize="none"`, topics.join('\n'))}</label>
<label>Callback ${fields.input('callback', html`type="url" required size="48"`, callback)}</label>
<div class="filter">${SETTING_NAMES.map((name) => settingField(fields, report, name))}</div>
<p class="hint">A topic that you take out of the list brings no more events. If you paused the deliveries, they go on.</p>
${wasField(settingsOf(report))}`;
  const action = `${subscriberPath(subscriber)}/settings`;
  return folded(call, 'Change the subscription…', { action, does: 'Change it', content });
}

function settingField(fields: FormFields, report: SubscriberReport, name: SettingName): Html {
  const { label, unit } = SETTINGS[name];
  const value: number | boolean = report[name];
  if (typeof value === 'boolean')
    return html`<label><input ${fields.checkbox(askedName(name), 'yes', value)}> ${label}</label>`;
  return html`<label>${label}${unit && ` (${unit})`} ${fields.input(askedName(name), html`type="number" min="0" required`, value)}</label>`;
}

function settingsOf(report: SubscriberReport) {
  return [report.topics.toSorted(), report.callback, ...SETTING_NAMES.map((name) => report[name])];
}

/**
 * Returns the settings that the person changed in the form, by their names in a request. An unchanged setting is not
 * sent: if it were stored, it would no longer follow the operator's default.
 */
function changedSettings(form: AnyFields, report: SubscriberReport) {
  return Object.fromEntries(
    SETTING_NAMES.flatMap((name) => {
      const typed = form[askedName(name)];
      const asked = typeof report[name] === 'boolean' ? typed === 'yes' : Number(typed);
      return asked === report[name] ? [] : [[askedName(name), asked]];
    }),
  );
}

/**
 * Makes the route that handles the form of `subscriptionForm`. The form does not show the subscription's `uuid`. The
 * route fetches it from the API and sends it back, because the API empties a `uuid` that is left out.
 */
export function subscriptionChange(api: ApiCalls, maxBodyBytes: number): Route {
  return action(`${PATH}/:token/settings`, CLIENTS, {
    action: 'subscription.put',
    maxBodyBytes,
    async act(call) {
      const { topics, callback } = call.body;
      const { params } = call;
      const { body: report } = await api.call<SubscriberReport>('GET /subscribers/:token', call, { params });
      const what = 'this subscription meanwhile; this form would replace what the page shows above';
      checkUnchanged(call.body, settingsOf(report), { code: 'bad_subscription', field: 'topics', what });
      await api.call('POST /subscription', call, {
        body: { topics: wordsIn(topics), callback, uuid: report.uuid, ...changedSettings(call.body, report) },
      });
      return subscriberPath(params.token);
    },
  });
}

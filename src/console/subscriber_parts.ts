import { type Content, type Html, html } from '../html.ts';
import type { Delivery } from '../records/delivery.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import { SETTING_NAMES, SETTINGS, type SettingName } from '../subscribing/subscription_settings.ts';
import { ago, bytes, count, exactDuration, number } from './format.ts';
import { boxes, pathWith } from './parts.ts';
import { memoryOf, stateLabel, waiting } from './subscribers_pages.ts';

const PAUSED_BY: Record<string, string> = {
  operator: 'by the operator',
  subscriber: 'by the subscriber',
  callback_gone: 'as the callback answered 410',
};

/** Returns the present state of a subscriber, each value in a box with its name. */
export function figures(report: SubscriberReport, nowMs: number): Html {
  const { events, dead_letters, dropped, paused_at, paused_by } = report;
  return boxes([
    ['State', stateLabel(report)],
    paused_at !== null && [
      'Paused',
      html`${ago(paused_at, nowMs)} ${paused_by !== null && PAUSED_BY[paused_by]}`,
    ],
    ['Queued', count(events.queued, 'event')],
    ['Oldest', waiting(events.oldest, nowMs)],
    ['Delivered', count(events.sent, 'event')],
    ['Health', `${report.health_points} of 100`],
    ['Last attempt', ago(report.last_attempted_at, nowMs)],
    [
      'Dead letters',
      html`<a href="${pathWith('/console/dead_letters', { subscriber: report.subscriber })}">${count(dead_letters.batches, 'letter')}</a>`,
    ],
    ['Memory', bytes(memoryOf(report))],
    ['Dropped', dropped ? count(dropped.events, 'event') : 'nothing'],
  ]);
}

/** Returns the sections with the topics and the settings of a subscriber. */
export function details(report: SubscriberReport): Html {
  const settings: [string, Content][] = [
    ['Callback', html`<span class="mono">${report.callback}</span>`],
    ...SETTING_NAMES.map((name) => [SETTINGS[name].label, settingText(report, name)] as [string, string]),
    ['Signatures', report.signing === null ? 'none' : SIGNATURES[report.signing]],
  ];
  return html`<h2>Topics</h2>
<p class="tags">${report.topics.length === 0 ? 'none' : report.topics.map((topic) => html`<a class="tag mono" href="/console/topics/${topic}">${topic}</a> `)}</p>
<h2>Settings</h2>
<dl class="settings card">${settings.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

function settingText(report: SubscriberReport, name: SettingName): string {
  const value = report[name];
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  const { unit } = SETTINGS[name];
  if (unit === 'ms') return exactDuration(value);
  return unit === 'bytes' ? bytes(value) : value.toLocaleString('en');
}

const SIGNATURES = {
  v1: 'v1: HMAC with a key that the subscriber has too',
  v1a: 'v1a: ed25519, whose public key the subscriber has',
};

/**
 * Returns a notice of the events that the bus has dropped for a subscriber, and whether the subscriber was told.
 * Returns undefined if none were dropped.
 */
export function dropNotice({ dropped }: SubscriberReport, nowMs: number): Content {
  if (!dropped) return undefined;
  const { batches, events, from, to, topics, last_at, untold } = dropped;
  const told =
    untold === 0
      ? 'It was told of all of them.'
      : `The next batch that it takes tells it of ${count(untold, 'event')}.`;
  return html`<h2>Drop notice</h2><div class="card bad-news"><p><b>${count(events, 'event')}</b> in ${count(batches, 'batch', 'batches')} were dropped because memory ran short. ${told}</p>
<dl class="settings">${last_at !== null && html`<dt>Last dropped</dt><dd>${ago(last_at, nowMs)}</dd>`}
<dt>Opened between</dt><dd>${ago(from, nowMs)} and ${ago(to, nowMs)}</dd>
<dt>Topics</dt><dd>${Object.entries(topics).map(([topic, n]) => html`<span class="tag mono">${topic} × ${number(n)}</span> `)}</dd></dl></div>`;
}

/**
 * Returns a notice for a subscriber whose `uuid` is empty, if its callback answered 401 to the last attempt to deliver
 * one of the `deliveries`. Only the subscriber itself sees the notice: for all other visitors, `uuid` is null.
 */
export function uuidNotice({ uuid }: SubscriberReport, deliveries: readonly Delivery[]): Content {
  const attempts = deliveries.flatMap((each) => each.attempts.slice(-1));
  const last = attempts.sort((one, other) => other.at - one.at)[0];
  if (uuid !== '' || last?.status !== 401) return undefined;
  return html`<div class="card bad-news"><p>The callback answers 401, and the <span class="mono">uuid</span> of the subscription is <b>empty</b>, as after a call of <span class="mono">POST /subscription</span> without it. If the receiver checks it, subscribe again with it.</p></div>`;
}

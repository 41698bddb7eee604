import type { DelayedReport } from '../flow/delayed/delayed_api.ts';
import { type Html, html } from '../html.ts';
import type { HistoryReport } from '../metrics/history_api.ts';
import { ALL, type Route } from '../routing/route.ts';
import type { Topic } from '../subscribing/topic.ts';
import type { WholeTopic } from '../subscribing/topics_api.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { ago, count, number } from './format.ts';
import { live } from './layout.ts';
import { linkToQueue } from './links.ts';
import { page } from './page.ts';
import { boxes, EVENT_WAS_PUBLISHED, pathWith, table } from './parts.ts';
import { isAsked, plots } from './plots.ts';
import { giving, PATH, publishing, removal, takingBack, topicChanges } from './topic_changes.ts';

/** Number of delayed events on the page of a topic: those that are due next. */
const SHOWN_DELAYED = '10';

/**
 * A page for each topic with its publisher, its subscribers and its plots, and forms for what the visitor may do.
 * `maxBytes` is the maximum length of a form with an event.
 */
export function topicPage(api: ApiCalls, maxBytes: number): Route[] {
  return [
    page(`${PATH}/:name`, ALL, async (call) => {
      const { name } = call.params;
      const { range, done } = call.query;
      const { body: topic } = await api.call<WholeTopic>('GET /topics/:name', call, { params: { name } });
      // The topic is read first, so that the page of an unknown topic shows the error of `GET /topics/:name`.
      const history =
        isAsked('plots', call.query) &&
        (await api.call<HistoryReport>('GET /history', call, {
          query: { subject: `topic:${name}`, range },
        }));
      const path = `${PATH}/${name}`;
      const nowMs = await api.nowMs();
      const delayed = isShown(call, topic) && topic.delayed > 0 ? await delayedOf(api, call, name) : [];
      return {
        title: `Topic ${name}`,
        current: PATH,
        body: [
          html`<h1 class="mono">${name}</h1>`,
          done && EVENT_WAS_PUBLISHED,
          live('topic', pathWith(path, { part: 'now' }), [
            figures(topic, isShown(call, topic)),
            subscribersOf(topic, call),
            delayed.length > 0 && delayedTable(call, topic, delayed, nowMs),
          ]),
          history && plots(history.body, path),
          mayPublish(call, topic) && publishing(call, name),
          html`<div class="acts">${api.allows('PUT /topics/:name/publisher', call) && giving(call, name)}
${isOwn(call, topic) && removal(call, name, 'Remove this topic…')}</div>`,
        ],
      };
    }),
    ...topicChanges(api, maxBytes),
  ];
}

async function delayedOf(api: ApiCalls, call: PageCall, name: string): Promise<DelayedReport[]> {
  const asked = { params: { name }, query: { limit: SHOWN_DELAYED } };
  return (await api.call<DelayedReport[]>('GET /topics/:name/delayed', call, asked)).body;
}

/** True if the visitor may remove the topic and its delayed events. */
export function isOwn({ caller }: PageCall, { publisher }: Topic): boolean {
  return caller?.role === 'root' || (caller?.role === 'client' && publisher === caller.token);
}

/** True if the visitor may see the delayed events of the topic, and the triggers of its publisher. */
function isShown(call: PageCall, topic: Topic): boolean {
  return call.caller?.role === 'viewer' || isOwn(call, topic);
}

function mayPublish({ caller }: PageCall, { publisher }: Topic): boolean {
  return caller?.role === 'client' && (publisher === null || publisher === caller.token);
}

/**
 * Returns the figures of a topic. With `linksTriggers`, adds a link to the publisher's triggers, because no other
 * triggers can publish to the topic.
 */
function figures(topic: WholeTopic, linksTriggers: boolean): Html {
  const { publisher, dropped } = topic;
  const shown = boxes([
    ['Events ever', number(topic.events)],
    ['Subscribers', number(topic.subscriber_count)],
    ['Delayed', number(topic.delayed)],
    dropped !== null && ['Dropped before their time', count(dropped.events, 'event')],
  ]);
  return html`${shown}
<dl class="settings card"><dt>Publisher</dt><dd>${
    publisher
      ? html`<span class="mono">${publisher}</span>${linksTriggers && html` <a href="${pathWith('/console/triggers', { client: publisher })}">Its triggers</a>`}`
      : html`<span class="none">nobody yet: the first client that publishes</span>`
  }</dd></dl>`;
}

function subscribersOf({ subscriber_count, subscribers }: WholeTopic, { caller }: PageCall): Html {
  const more = subscriber_count - subscribers.length;
  const rest =
    more > 0 &&
    html`<span class="none">${subscribers.length > 0 && 'and '}${caller?.role === 'client' ? `${count(more, 'subscriber')} of other clients` : `${number(more)} more`}</span>`;
  return html`<h2>Subscribers</h2>
<p class="tags">${subscriber_count === 0 ? html`<span class="none">Nobody gets its events.</span>` : subscribers.map((each) => html`${linkToQueue(each)} `)}${rest}</p>`;
}

function delayedTable(
  call: PageCall,
  topic: WholeTopic,
  delayed: readonly DelayedReport[],
  nowMs: number,
): Html {
  const takeBack = ({ event }: DelayedReport) => takingBack(call, topic.name, event.id);
  return html`<h2>Next delayed events</h2>${table<DelayedReport>(
    [
      { name: 'Due', cell: ({ at }) => ago(at, nowMs) },
      { name: 'Event', cell: ({ event }) => html`<span class="mono">${`${event.type} ${event.url}`}</span>` },
      { name: 'Id', cell: ({ event }) => html`<span class="mono">${event.id}</span>` },
      isOwn(call, topic) && { name: '', cell: takeBack },
    ],
    delayed,
    '',
  )}${topic.delayed > delayed.length && html`<p class="hint">${number(topic.delayed - delayed.length)} more wait behind these.</p>`}`;
}

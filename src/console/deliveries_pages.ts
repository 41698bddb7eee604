import { z } from 'zod';
import { type Content, type Html, html } from '../html.ts';
import { type Delivery, STATES } from '../records/delivery.ts';
import { ALL, type Input, type Route } from '../route.ts';
import type { ApiCalls } from './api_calls.ts';
import { attemptsTable, BATCH_ENDING, eventsShown } from './batch_parts.ts';
import { ago, bytes, count, number } from './format.ts';
import { live } from './layout.ts';
import { page } from './page.ts';
import { ANY_QUERY, boxes, choices, nextPage, pathWith, table } from './parts.ts';

const PATH = '/console/deliveries';

const ID: Input<{ id: string }> = {
  schema: z.object({ id: z.string() }),
  wording: { code: 'delivery_not_found', whole: 'there is no such batch' },
};

/** Whether a state is shown as good, as a warning or as bad. */
const KINDS: Record<Delivery['state'], 'good' | 'warn' | 'bad'> = {
  ...{ open: 'good', ready: 'good', in_flight: 'good', taken: 'good' },
  ...{ retrying: 'warn', paused: 'warn', dead: 'bad', dropped: 'bad' },
};

/** The states by which a reader can filter, each with the text of its link. */
const CHOICES = { '': 'all', ...Object.fromEntries(STATES.map((state) => [state, nameOf(state)])) };

/** A page that lists batches with their states, and one that shows all that happened to a batch. */
export function deliveriesPages({ api }: { api: ApiCalls }): Route[] {
  return [
    page(PATH, ALL, {
      query: ANY_QUERY,
      async show(call) {
        const { state, subscriber } = call.query;
        const query = { limit: '100', ...call.query };
        const { body, next } = await api.call<Delivery[]>('GET /deliveries', call, { query });
        return {
          title: 'Deliveries',
          current: PATH,
          body: live('deliveries', pathWith(PATH, call.query), [
            html`<h1>Deliveries${subscriber && html` of <span class="mono">${subscriber}</span>`}</h1>`,
            choices(CHOICES, state ?? '', (each) => pathWith(PATH, { subscriber, state: each })),
            deliveriesTable(
              body,
              state || subscriber ? 'Nothing matches.' : 'Nothing was queued in the last day.',
            ),
            nextPage(PATH, next),
          ]),
        };
      },
    }),
    page(`${PATH}/:id`, ALL, {
      params: ID,
      async show(call) {
        const { id } = call.params;
        const { body } = await api.call<WholeDelivery>('GET /deliveries/:id', call, {
          params: { id },
          ending: BATCH_ENDING,
        });
        return {
          title: `Delivery ${id}`,
          current: PATH,
          body: live('delivery', `${PATH}/${id}`, shown(body)),
        };
      },
    }),
  ];
}

type WholeDelivery = Delivery & { events?: Record<string, unknown>[] };

function nameOf(state: string): string {
  return state.replace('_', ' ');
}

export function linkToDeliveries(subscriber: string): string {
  return pathWith(PATH, { subscriber });
}

/** A table of batches, the newest first. */
export function deliveriesTable(deliveries: readonly Delivery[], empty: Content): Html {
  const nowMs = Date.now();
  return table<Delivery>(
    [
      { name: 'Batch', cell: ({ id }) => html`<a class="mono" href="${PATH}/${id}">${id}</a>` },
      { name: 'State', cell: stateOf },
      {
        name: 'Subscriber',
        cell: ({ subscriber, join }) => html`<span class="mono">${subscriber}</span> ${join}`,
      },
      { name: 'Events', isAmount: true, cell: ({ event_count }) => number(event_count) },
      { name: 'Attempts', isAmount: true, cell: ({ attempt_count }) => attempt_count },
      { name: 'Last answer', cell: lastAnswer },
      { name: 'Opened', cell: ({ opened_at }) => ago(opened_at, nowMs) },
      { name: 'Ended', cell: ({ ended_at }) => ended_at !== null && ago(ended_at, nowMs) },
    ],
    deliveries,
    empty,
  );
}

function lastAnswer({ attempts }: Delivery): Content {
  const last = attempts.at(-1);
  return last && (last.status ?? html`<span class="none">no answer</span>`);
}

function stateOf({ state }: Delivery): Html {
  return html`<span class="state ${KINDS[state]}">${nameOf(state)}</span>`;
}

function shown(delivery: WholeDelivery): Html {
  const nowMs = Date.now();
  const { id, subscriber, join, reason, events, topics } = delivery;
  const shown: [string, Content][] = [
    ['State', stateOf(delivery)],
    [
      'Events',
      html`${number(delivery.event_count)}${delivery.bytes !== null && `, ${bytes(delivery.bytes)}`}`,
    ],
    ['Attempts', delivery.attempt_count],
  ];
  const steps: [string, number | null][] = [
    ['Opened', delivery.opened_at],
    ['First attempt', delivery.first_attempt_at],
    ['Last attempt', delivery.last_attempt_at],
    [delivery.state === 'taken' ? 'Taken' : 'Ended', delivery.ended_at],
  ];
  const times = steps.flatMap(([name, at]) => (at === null ? [] : [[name, ago(at, nowMs)] as const]));
  return html`<h1>Delivery <span class="mono">${id}</span></h1>
${boxes([...shown, ...times])}
<dl class="settings card"><dt>Subscriber</dt><dd class="mono"><a href="/console/subscribers/${encodeURIComponent(subscriber)}">${subscriber}</a></dd>
${join !== undefined && html`<dt>Join</dt><dd class="mono">${join}</dd>`}
${reason !== null && html`<dt>Reason</dt><dd class="mono">${reason}</dd>`}
<dt>Topics</dt><dd>${topics === null ? html`<span class="none">not known</span>` : Object.entries(topics).map(([topic, n]) => html`<span class="tag mono">${topic} × ${n}</span> `)}</dd></dl>
<h2>Attempts</h2>${attemptsTable(delivery.attempts, nowMs)}
<h2>${count(delivery.event_count, 'event')}</h2>
${events === undefined ? html`<p class="hint">Its events are gone: they are kept until they are taken or dropped.</p>` : eventsShown(events, delivery.event_count, `GET /deliveries/${id}`)}`;
}

import { type Content, type Html, html } from '../html.ts';
import { joinToken } from '../ids.ts';
import type { WholeDelivery } from '../records/deliveries_api.ts';
import type { Delivery, Wait } from '../records/delivery.ts';
import { ALL, type Route } from '../routing/route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { BATCH_ENDING, eventsShown } from './batch_parts.ts';
import { curlOfDelivery } from './delivery_curl.ts';
import { ago, bytes, count } from './format.ts';
import { live } from './layout.ts';
import { linkToQueue } from './links.ts';
import { forwarding, page } from './page.ts';
import { boxes, confirmed, copyable, form, hidden } from './parts.ts';
import { timeline } from './timeline.ts';

export const PATH = '/console/deliveries';

const KINDS: Record<Delivery['state'], 'good' | 'warn' | 'bad'> = {
  open: 'good',
  ready: 'good',
  in_flight: 'good',
  taken: 'good',
  retrying: 'warn',
  paused: 'warn',
  dead: 'bad',
  dropped: 'bad',
};

/** States in which a batch waits: for its deadline, a worker, or its next attempt. A person can end the wait. */
const WAITING: readonly Delivery['state'][] = ['open', 'ready', 'retrying'];

const FIND_PATH = `${PATH}/find` as const;

/** Returns a form that opens the page of a batch by its id. */
export function findForm(): Html {
  return html`<form method="get" action="${FIND_PATH}" class="filter"><label>Batch <input name="id" required placeholder="its webhook-id" autocapitalize="none" spellcheck="false"></label>
<button class="quiet">Open</button></form>`;
}

/**
 * The page of a batch shows its state, what has happened to it, and its events. It has buttons that deliver or purge
 * the batch.
 */
export function deliveryPage(api: ApiCalls): Route[] {
  return [
    page(FIND_PATH, ALL, async ({ query: { id = '' } }) => {
      const headers = { Location: `${PATH}/${encodeURIComponent(id.trim())}` };
      return { title: 'Deliveries', status: 303, headers, body: '' };
    }),
    page(`${PATH}/:id`, ALL, async (call) => {
      const { id } = call.params;
      const { body: delivery } = await api.call<WholeDelivery>('GET /deliveries/:id', call, {
        params: { id },
        ending: BATCH_ENDING,
      });
      const subscriber = await subscriberOf(call, delivery);
      const nowMs = await api.nowMs();
      return {
        title: `Delivery ${id}`,
        current: PATH,
        body: [
          html`<h1>Delivery <span class="mono">${id}</span></h1>`,
          live('delivery', `${PATH}/${id}`, [
            figures(delivery, nowMs),
            html`<div class="acts">${acts(call, delivery)}</div><h2>Its story</h2>`,
            timeline(delivery, nowMs),
            story(delivery),
          ]),
          subscriber && repeating(delivery, subscriber),
          whatItHas(delivery),
        ],
      };
    }),
    forwarding(api, 'POST /deliveries/:id/retry', `${PATH}/:id/retry`, {
      next: ({ params }) => `${PATH}/${params.id}`,
    }),
    forwarding(api, 'POST /deliveries/:id/bury', `${PATH}/:id/bury`, {
      next: ({ params }) => `${PATH}/${params.id}`,
    }),
  ];

  /**
   * Resolves with the subscriber of a batch, which the curl command on the page needs. Resolves with undefined if the
   * page shows no command: for a batch of a join, for a batch without events, or if the subscriber cannot be read.
   */
  async function subscriberOf(call: PageCall, { subscriber, join, events }: WholeDelivery) {
    if (events === undefined || join !== undefined) return undefined;
    const asked = { params: { token: subscriber } };
    const found = api.call<SubscriberReport>('GET /subscribers/:token', call, asked);
    return found.then(
      ({ body }) => body,
      () => undefined,
    );
  }

  function buryForm(call: PageCall, { id, state }: Delivery): Content {
    if (!WAITING.includes(state) || !api.allows('POST /deliveries/:id/bury', call)) return undefined;
    const what = 'It becomes a dead letter, which you can retry later. The batches behind it go on.';
    return confirmed(call, 'Bury…', what, { action: `${PATH}/${id}/bury`, does: 'Bury' });
  }

  /** Returns a form that delivers the batch now, and one that buries it or, if it is a dead letter, purges it. */
  function acts(call: PageCall, delivery: Delivery): Content {
    const { id, state } = delivery;
    if (state !== 'dead') return [retryForm(api, call, delivery), buryForm(call, delivery)];
    if (!api.allows('POST /dead_letters/:id/retry', call)) return undefined;
    const path = '/console/dead_letters/selected';
    return [
      form(call, { action: path, does: 'Retry now', content: hidden({ id, do: 'retry' }) }),
      confirmed(call, 'Purge…', 'Its events are deleted, and never delivered.', {
        action: path,
        does: 'Purge',
        content: hidden({ id, do: 'purge' }),
      }),
    ];
  }
}

/**
 * Returns a form that delivers a batch now. Undefined if the batch does not wait, or the visitor may not deliver it.
 */
export function retryForm(api: ApiCalls, call: PageCall, { id, state }: Delivery): Content {
  if (!WAITING.includes(state) || !api.allows('POST /deliveries/:id/retry', call)) return undefined;
  const does = state === 'retrying' ? 'Retry now' : 'Deliver now';
  return form(call, { action: `${PATH}/${id}/retry`, does });
}

export function deliveryState({ state }: Delivery): Html {
  return html`<span class="state ${KINDS[state]}">${nameOf(state)}</span>`;
}

export function nameOf(state: string): string {
  return state.replace('_', ' ');
}

/** Texts for what a batch waits for. `time` has no text, because the page shows the time itself. */
const WAITS_FOR: Record<Wait['waits_for'], string | undefined> = {
  time: undefined,
  worker: 'a free worker',
  resume: 'its subscriber to be resumed',
  older_batch: 'an older batch, because its subscriber is ordered',
  other_batch: 'another batch of its subscriber, which is tried first',
  room: 'the end of another delivery to its subscriber',
};

function figures(delivery: WholeDelivery, nowMs: number): Html {
  const size = html`${count(delivery.event_count, 'event')}${delivery.bytes !== null && `, ${bytes(delivery.bytes)}`}`;
  const steps: [string, number | null][] = [
    ['Opened', delivery.opened_at],
    ['Closed', delivery.closed_at],
    ['First attempt', delivery.attempts.length > 1 ? delivery.first_attempt_at : null],
    ['Last attempt', delivery.last_attempt_at],
    ['Next attempt', delivery.next_attempt_at ?? null],
    [delivery.state === 'taken' ? 'Taken' : 'Ended', delivery.ended_at],
  ];
  return boxes([
    ['State', deliveryState(delivery)],
    ['Content', size],
    ['Attempts', delivery.attempt_count],
    ...steps.map(([name, at]) => at !== null && ([name, ago(at, nowMs)] as const)),
  ]);
}

function story(delivery: WholeDelivery): Html {
  const { subscriber, join, waits_for, reason, topics } = delivery;
  const waitsFor = waits_for && WAITS_FOR[waits_for];
  const queue = join === undefined ? subscriber : joinToken(join, subscriber);
  const parts = topics && Object.entries(topics);
  return html`<dl class="settings card"><dt>Subscriber</dt><dd>${linkToQueue(queue)}</dd>
${waitsFor && html`<dt>Waits for</dt><dd>${waitsFor}</dd>`}
${reason !== null && html`<dt>Reason</dt><dd class="mono">${reason}</dd>`}
<dt>Topics</dt><dd>${parts?.map(([topic, n]) => html`<span class="tag mono">${topic} × ${n}</span> `) ?? html`<span class="none">not known</span>`}</dd></dl>
`;
}

function repeating(delivery: WholeDelivery, subscriber: SubscriberReport): Html {
  const { command, note } = curlOfDelivery(delivery, subscriber);
  return html`<details class="confirm"><summary>As a curl command…</summary><p class="hint">${note}</p>${copyable(command)}</details>`;
}

function whatItHas({ id, event_count, events }: WholeDelivery): Html {
  const shown =
    events === undefined
      ? html`<p class="hint">Its events are gone: they are kept until they are taken or dropped.</p>`
      : eventsShown(events, event_count, `GET /deliveries/${id}`);
  return html`<h2>${count(event_count, 'event')}</h2>${shown}`;
}

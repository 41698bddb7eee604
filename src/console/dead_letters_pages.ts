import { z } from 'zod';
import type { AttemptReport } from '../delivering/attempt.ts';
import type { DeadLetter } from '../delivering/dead_letter.ts';
import { type Content, type Html, html } from '../html.ts';
import { ALL, BOTH, type Input, type Route } from '../route.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls, Visit } from './api_calls.ts';
import { attemptsTable, BATCH_ENDING, eventsShown } from './batch_parts.ts';
import { ago, count } from './format.ts';
import { action, page } from './page.ts';
import { ANY_FIELDS, ANY_QUERY, boxes, confirmed, form, nextPage, table } from './parts.ts';

const PATH = '/console/dead_letters';

const ID: Input<{ id: string }> = {
  schema: z.object({ id: z.string() }),
  wording: { code: 'dead_letter_not_found', whole: 'there is no such dead letter' },
};

type WholeLetter = DeadLetter & { history: AttemptReport[]; events: Record<string, unknown>[] };

/** Pages that list dead letters, show one, and retry or purge them. */
export function deadLettersPages({ api }: { api: ApiCalls }): Route[] {
  return [
    page(PATH, ALL, {
      query: ANY_QUERY,
      async show(call) {
        const { subscriber } = call.query;
        const { body, next } = await api.call<DeadLetter[]>('GET /dead_letters', call, { query: call.query });
        const nowMs = Date.now();
        const mayChange = api.allows('POST /dead_letters/:id/retry', call);
        const rows = table<DeadLetter>(
          [
            ...(mayChange ? [{ name: '', cell: selector }] : []),
            {
              name: 'Died',
              cell: ({ id, died_at }) => html`<a href="${PATH}/${id}">${ago(died_at, nowMs)}</a>`,
            },
            { name: 'Subscriber', cell: (letter) => html`<span class="mono">${letter.subscriber}</span>` },
            { name: 'Reason', cell: ({ reason }) => html`<span class="mono">${reason}</span>` },
            { name: 'Attempts', isAmount: true, cell: ({ attempts }) => attempts },
            { name: 'Events', isAmount: true, cell: ({ event_count }) => event_count },
          ],
          body,
          'Nothing has died. A batch becomes a dead letter when it was tried for too long, or too often.',
        );
        const acts = html`<p class="acts"><button class="quiet" name="do" value="retry">Retry selected</button>
<button class="danger" name="do" value="purge">Purge selected</button></p>`;
        return {
          title: 'Dead letters',
          current: PATH,
          body: html`<h1>Dead letters${subscriber && html` of <span class="mono">${subscriber}</span>`}</h1>
${mayChange && body.length > 0 ? selected(call, html`${rows}${acts}`) : rows}${nextPage(PATH, next)}
${mayChange && body.length > 0 && all(call, subscriber, await lettersOf(call, subscriber))}`,
        };
      },
    }),
    action(`${PATH}/selected`, BOTH, {
      action: 'dead_letters.selected',
      form: ANY_FIELDS,
      async act(call) {
        const ids = [call.body.id ?? []].flat();
        const name = call.body.do === 'purge' ? 'DELETE /dead_letters/:id' : 'POST /dead_letters/:id/retry';
        for (const id of ids) await api.call(name, call, { params: { id } });
        return PATH;
      },
    }),
    action(`${PATH}/all`, BOTH, {
      action: 'dead_letters.all',
      form: ANY_FIELDS,
      async act(call) {
        const { subscriber, do: wanted } = call.body;
        const query = typeof subscriber === 'string' && call.caller.role === 'root' ? { subscriber } : {};
        await api.call(wanted === 'purge' ? 'DELETE /dead_letters' : 'POST /dead_letters/retry', call, {
          query,
        });
        return PATH;
      },
    }),
    // Comes after the forms: their paths would otherwise match `:id`, which refuses POST.
    page(`${PATH}/:id`, ALL, {
      params: ID,
      async show(call) {
        const { body } = await api.call<WholeLetter | string>('GET /dead_letters/:id', call, {
          params: call.params,
          ending: BATCH_ENDING,
        });
        const letter = typeof body === 'string' ? (JSON.parse(body) as WholeLetter) : body;
        return { title: `Dead letter ${letter.id}`, current: PATH, body: shown(call, letter) };
      },
    }),
  ];

  /** Returns what the forms for all letters cover, in words: for a client, also the letters of its joins. */
  async function lettersOf(call: Visit, subscriber: string | undefined): Promise<string> {
    if (subscriber === undefined) return 'all dead letters';
    const params = { token: subscriber };
    const { body } = await api.call<SubscriberReport>('GET /subscribers/:token', call, { params });
    return count(body.dead_letters.batches, 'dead letter');
  }

  function shown(call: Visit, letter: WholeLetter): Html {
    const nowMs = Date.now();
    const mayChange = api.allows('POST /dead_letters/:id/retry', call);
    const id = html`<input type="hidden" name="id" value="${letter.id}">`;
    return html`<h1>Dead letter <span class="mono">${letter.id}</span></h1>
${boxes([
  ['Subscriber', html`<span class="mono">${letter.subscriber}</span>`],
  ['Reason', html`<span class="mono">${letter.reason}</span>`],
  ['Opened', ago(letter.created_at, nowMs)],
  ['Died', ago(letter.died_at, nowMs)],
  ['Attempts', letter.attempts],
])}
${
  mayChange &&
  html`<div class="acts">${form(call, { action: `${PATH}/selected`, does: 'Retry', content: html`${id}<input type="hidden" name="do" value="retry">` })}
${form(call, { action: `${PATH}/selected`, does: 'Purge', isDangerous: true, content: html`${id}<input type="hidden" name="do" value="purge">` })}</div>`
}
<h2>Attempts</h2>
${attemptsTable(letter.history, nowMs)}
<h2>${count(letter.event_count, 'event')}</h2>
${eventsShown(letter.events, letter.event_count, `GET /dead_letters/${letter.id}`)}`;
  }
}

function selector({ id }: DeadLetter): Html {
  return html`<input type="checkbox" name="id" value="${id}" aria-label="Select ${id}">`;
}

function selected({ formToken }: Visit, content: Content): Html {
  return html`<form method="post" action="${PATH}/selected"><input type="hidden" name="form_token" value="${formToken}">${content}</form>`;
}

/** Returns forms that retry or purge all letters of one subscriber, not only those on this page. */
function all(call: Visit, subscriber: string | undefined, letters: string): Content {
  if (call.caller?.role === 'root' && !subscriber)
    return html`<p class="hint">To retry or purge all letters of one subscriber, open its page, and follow its dead letters.</p>`;
  const whose = subscriber ?? 'yours';
  const fields = (wanted: string) =>
    html`<input type="hidden" name="do" value="${wanted}"><input type="hidden" name="subscriber" value="${subscriber}">`;
  const options = { action: `${PATH}/all` };
  return html`<div class="acts">${confirmed(
    call,
    'Retry all…',
    `Queues ${letters} of ${whose} again, also those of other pages and of joins.`,
    {
      ...{ ...options, does: 'Retry all', isDangerous: false },
      content: fields('retry'),
    },
  )}${confirmed(
    call,
    'Purge all…',
    `Deletes ${letters} of ${whose} for good, also those of other pages and of joins.`,
    {
      ...{ ...options, does: 'Purge all' },
      content: fields('purge'),
    },
  )}</div>`;
}

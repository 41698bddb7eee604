import { slicesOf } from '../chunks.ts';
import { DEATH_REASONS } from '../delivering/settlement.ts';
import { BusError, type ErrorCode, ignoreUnavailable, StorageUnavailable } from '../errors.ts';
import { type Html, html } from '../html.ts';
import type { DeadLetter } from '../records/dead_letter.ts';
import { ALL, BOTH, type Route } from '../routing/route.ts';
import { type ApiCalls, charge, type PageCall } from './api_calls.ts';
import { BULK_PATH, type BulkParts, bulkOwner, bulkPages, headline, timeIn } from './bulk_pages.ts';
import { PATH as DELIVERIES } from './delivery_page.ts';
import { FormFields } from './filled_form.ts';
import { ago } from './format.ts';
import { answerPage } from './layout.ts';
import { linkToSubscriber } from './links.ts';
import { action, page } from './page.ts';
import { backTo, hidden, nextPage, optionsOf, ownFields, table } from './parts.ts';

const PATH = '/console/dead_letters';

/** These errors mean that a dead letter or its subscriber no longer exists. */
const LEFT_OUT: readonly ErrorCode[] = ['dead_letter_not_found', 'subscriber_not_found'];

/**
 * Maximum selected dead letters that are retried or purged at the same time. Those in a partition that hangs take five
 * seconds together. One after another, they would take minutes.
 */
const CHANGED_AT_ONCE = 50;

/**
 * Calls `change` for each of the selected dead letters. If several are selected, goes on after the error of a dead
 * letter that is gone, that is in a partition that is away, or whose subscriber has left. Resolves with these errors,
 * by the id of the dead letter. Throws any other error.
 */
async function changeEach(
  ids: readonly string[],
  change: (id: string) => Promise<unknown>,
): Promise<Map<string, BusError>> {
  const failures = new Map<string, BusError>();
  const isSkipped = (error: unknown) =>
    error instanceof StorageUnavailable || (error instanceof BusError && LEFT_OUT.includes(error.code));
  for (const slice of slicesOf(ids, CHANGED_AT_ONCE)) {
    const outcomes = await Promise.allSettled(slice.map(change));
    for (const [index, outcome] of outcomes.entries()) {
      if (outcome.status === 'fulfilled') continue;
      if (ids.length === 1 || !isSkipped(outcome.reason)) throw outcome.reason;
      failures.set(slice[index] as string, outcome.reason);
    }
  }
  return failures;
}

/** Pages that list dead letters, and retry or purge them. */
export function deadLettersPages({ api, ...parts }: BulkParts & { api: ApiCalls }): Route[] {
  return [
    listing({ api, bulks: parts.bulks }),
    action(`${PATH}/selected`, BOTH, {
      action: 'dead_letters.selected',
      async act(call) {
        const ids = [call.body.id ?? []].flat();
        if (ids.length === 0)
          throw new BusError('bad_body', 'select a dead letter first; nothing was changed');
        const act = call.body.do === 'purge' ? 'purge' : 'retry';
        const name = act === 'purge' ? 'DELETE /dead_letters/:id' : 'POST /dead_letters/:id/retry';
        call.about?.(`${act} ${ids.length}: ${ids.join(' ')}`);
        const failures = await changeEach(ids, (id) => {
          charge(call, 1);
          return api.call(name, call, { params: { id } });
        });
        const list = backTo(PATH, call);
        if (failures.size === 0) return list;
        const done = ids.filter((id) => !failures.has(id)).length;
        const unknown = ids.filter((id) => failures.get(id) instanceof StorageUnavailable);
        const away = [...failures.values()].find((error) => error instanceof StorageUnavailable);
        if (away && unknown.length === ids.length) throw away;
        const said = headline({ act, state: 'ended', matched: ids.length, done });
        const body = leftOut(said, { gone: ids.length - done - unknown.length, unknown, away, act, list });
        const status = away?.status ?? 200;
        const shown = await answerPage(call, { title: 'Dead letters', current: PATH, body, status });
        return { ...shown, ...(away && { code: away.code }) };
      },
    }),
    ...bulkPages({ api, ...parts }),
  ];
}

/** The page that lists dead letters. Its forms retry or purge the selected ones, or all that match. */
function listing({ api, bulks }: Pick<BulkParts, 'bulks'> & { api: ApiCalls }): Route {
  return page(PATH, ALL, async (call) => {
    const { since, until, ...others } = call.query;
    const { subscriber, join, reason } = others;
    const times = { since: timeIn(since)?.toString(), until: timeIn(until)?.toString() };
    const [{ body, next }, bulk] = await Promise.all([
      api.call<DeadLetter[]>('GET /dead_letters', call, { query: { ...others, ...times } }),
      // If a partition is away, the page does not say which retry or purge of many dead letters is under way.
      bulks.find(bulkOwner(call.caller)).catch(ignoreUnavailable),
    ]);
    const isFiltered = [subscriber, join, reason, since, until, others.before].some(Boolean);
    const nowMs = await api.nowMs();
    const mayChange = api.allows('POST /dead_letters/:id/retry', call);
    const fields = new FormFields(call, `${PATH}/selected`);
    const selector = ({ id }: DeadLetter) =>
      html`<input ${fields.checkbox('id', id)} aria-label="Select ${id}">`;
    const rows = table<DeadLetter>(
      [
        mayChange && { name: '', cell: selector },
        {
          name: 'Died',
          cell: ({ id, died_at }) => html`<a href="${DELIVERIES}/${id}">${ago(died_at, nowMs)}</a>`,
        },
        { name: 'Subscriber', cell: linkToSubscriber },
        { name: 'Reason', cell: ({ reason }) => html`<span class="mono">${reason}</span>` },
        { name: 'Attempts', isAmount: true, cell: ({ attempts }) => attempts },
        { name: 'Events', isAmount: true, cell: ({ event_count }) => event_count },
      ],
      body,
      isFiltered
        ? `None match${next ? ' here; look at the next page' : ''}.`
        : 'Nothing has died. A batch becomes a dead letter when it was tried for too long, or too often.',
    );
    // HTML permits no form inside a form, so `confirmed`, which makes a form, cannot be used here.
    const acts = html`<div class="acts"><button class="quiet" name="do" value="retry">Retry selected</button>
<details class="confirm"><summary>Purge selected…</summary><div class="card"><p>Their events are deleted, and never delivered.</p>
<button class="danger" name="do" value="purge">Purge selected</button></div></details></div>`;
    return {
      title: 'Dead letters',
      current: PATH,
      body: html`<h1>Dead letters${subscriber && html` of <span class="mono">${subscriber}</span>`}</h1>
${bulk && html`<p class="card">${headline(bulk)}. <a href="${BULK_PATH}">Look at it</a></p>`}
${filter(call.query)}
${mayChange && body.length > 0 ? html`<form method="post" action="${PATH}/selected">${fields.problem()}${ownFields(call)}${rows}${acts}</form>` : rows}${nextPage(PATH, next && { ...next, since: since ?? '', until: until ?? '' })}
${mayChange && (body.length > 0 || next) && all(call, call.query)}`,
    };
  });
}

interface Rest {
  /** Number of selected dead letters that were left out, because they are gone or their subscriber has left. */
  gone: number;
  /** The ids of the selected dead letters in a partition that is away. */
  unknown: readonly string[];
  away: StorageUnavailable | undefined;
  act: 'retry' | 'purge';
  list: string;
}

function leftOut(said: string, { gone, unknown, away, act, list }: Rest): Html {
  return html`<h1>${said}</h1>
${gone > 0 && html`<p>${gone} of those that were selected ${gone === 1 ? 'was' : 'were'} left out: they are gone, or their subscriber has left.</p>`}
${
  away &&
  html`<p>It is unknown whether ${unknown.length === 1 ? 'this one was' : 'these were'} ${act === 'retry' ? 'retried' : 'purged'}, because ${away.why}. Look again in a moment:</p>
<ul>${unknown.map((id) => html`<li><a class="mono" href="${DELIVERIES}/${id}">${id}</a></li>`)}</ul>`
}
<p><a href="${list}">Dead letters</a></p>`;
}

function filter({ subscriber, join, reason, since, until }: Query): Html {
  const reasons = optionsOf(DEATH_REASONS, 'any', reason);
  return html`<form method="get" action="${PATH}" class="filter">${hidden({ subscriber, join })}<label>Reason <select name="reason">${reasons}</select></label>
<label>Died from <input type="datetime-local" name="since" value="${since}"></label>
<label>until <input type="datetime-local" name="until" value="${until}"> UTC</label>
<button class="quiet">Filter</button></form>`;
}

type Query = Record<string, string | undefined>;

/** A form that retries or purges all matching dead letters, on all pages. They are counted before a person confirms. */
function all(call: PageCall, { subscriber, join, reason, since, until }: Query): Html {
  const fields = hidden({ subscriber, join, reason, since, until });
  return html`<h2>All that match, on this page and on others</h2>
<form method="post" action="${BULK_PATH}">${ownFields(call)}${fields}
<p class="hint">They are counted first. Nothing changes before you have seen the number.</p>
<p class="acts"><button class="quiet" name="do" value="retry">Retry all…</button>
<button class="danger" name="do" value="purge">Purge all…</button></p></form>`;
}

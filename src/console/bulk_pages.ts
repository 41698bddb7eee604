import type { PublicNames } from '../authentication/public_names.ts';
import { type Bulk, type Bulks, ROOT_OWNER } from '../delivering/dead_letters/bulks.ts';
import { DEATH_REASONS, type DeathReason } from '../delivering/settlement.ts';
import { BusError, ignoreUnavailable } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import type { Caller } from '../routing/caller.ts';
import { ALL, BOTH, type Route } from '../routing/route.ts';
import { type AskedSubscribersParts, subscribersOf } from '../subscribing/asked_subscribers.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { ago, duration } from './format.ts';
import { live } from './layout.ts';
import { linkToQueue } from './links.ts';
import { action, page } from './page.ts';
import { form, hidden, pathWith } from './parts.ts';

const LETTERS = '/console/dead_letters';
export const BULK_PATH = `${LETTERS}/bulk`;

export interface BulkParts {
  bulks: Pick<Bulks, 'begin' | 'find' | 'confirm' | 'cancel'>;
  joins: AskedSubscribersParts['joins'];
  publicNames: Pick<PublicNames, 'seenBy'>;
}

export function bulkOwner(caller: Caller): string {
  return caller.role === 'client' ? caller.token : ROOT_OWNER;
}

/**
 * Pages for a bulk operation: a retry or purge of all dead letters that match a filter. They show how many match, then
 * the progress.
 */
export function bulkPages({ api, bulks, joins, publicNames }: BulkParts & { api: ApiCalls }): Route[] {
  return [
    page(BULK_PATH, ALL, async (call) => {
      const bulk = await seenBy(call.caller, await bulks.find(bulkOwner(call.caller)));
      const nowMs = await api.nowMs();
      const mayChange = call.caller.role !== 'viewer';
      const { busy, id } = call.query;
      return {
        title: 'Dead letters',
        current: LETTERS,
        // When an open page refreshes itself, it sends the `id` of the bulk operation that it shows. If somebody has
        // begun another operation since, the page shows the new one, and says so.
        body: live('bulk', pathWith(BULK_PATH, { busy, id: id ?? bulk?.id }), [
          busy && bulk?.state === 'running' && important('This one still runs, so no other was begun.'),
          id &&
            bulk &&
            bulk.id !== id &&
            important('Somebody has begun this one meanwhile, in place of the one that was here.'),
          bulk ? shown(bulk, mayChange && call, nowMs) : html`<h1>Nothing is retried or purged now</h1>`,
          html`<p><a href="${LETTERS}">Dead letters</a></p>`,
        ]),
      };
    }),
    action(BULK_PATH, BOTH, {
      action: 'dead_letters.bulk',
      async act({ caller, body, about }) {
        const act = body.do === 'purge' ? 'purge' : 'retry';
        const subscriber = caller.role === 'client' ? caller.token : String(body.subscriber ?? '');
        about?.(act, subscriber);
        const { join, since, until } = body;
        const tokens =
          subscriber === '' ? undefined : await subscribersOf({ joins }, subscriber, join && String(join));
        const untilMs = timeIn(until);
        const filter = {
          tokens,
          reason: reasonIn(body.reason),
          fromMs: timeIn(since),
          untilMs: untilMs === undefined ? undefined : untilMs - 1,
        };
        const hasBegun = await bulks.begin(bulkOwner(caller), act, filter);
        return hasBegun ? BULK_PATH : `${BULK_PATH}?busy=1`;
      },
    }),
    deciding('confirm'),
    deciding('cancel'),
  ];

  /** Returns a bulk operation as the visitor may see it: a viewer sees public names, because tokens can be credentials. */
  async function seenBy(caller: Caller, bulk: Bulk | undefined): Promise<Bulk | undefined> {
    if (!bulk?.tokens) return bulk;
    return { ...bulk, tokens: bulk.tokens.map(await publicNames.seenBy(caller, bulk.tokens)) };
  }

  function deciding(does: 'confirm' | 'cancel'): Route {
    return action(`${BULK_PATH}/${does}`, BOTH, {
      action: `dead_letters.bulk_${does}`,
      async act({ caller, body, about }) {
        const id = String(body.id);
        const finding = bulks.find(bulkOwner(caller));
        // While a partition is away, the operation cannot be found, but it goes on in the others, and can be stopped
        // there.
        const bulk = await (does === 'cancel' ? finding.catch(ignoreUnavailable) : finding);
        // Tells the audit (the record of changes) whether this is a retry or a purge, and whose dead letters it
        // changes.
        if (bulk?.id === id) about?.(bulk.act, bulk.tokens?.[0]);
        await bulks[does](bulkOwner(caller), id);
        return pathWith(BULK_PATH, { id });
      },
    });
  }
}

/** Reads the time in a form field, as ms. Browsers send it without a zone: `2026-11-23T04:05`. It is taken as UTC. */
export function timeIn(field: string | string[] | undefined): number | undefined {
  if (!field) return undefined;
  const ms = Date.parse(`${field}Z`);
  if (Number.isNaN(ms)) throw new BusError('bad_body', 'a time must be such as 2026-11-23T04:05, in UTC');
  return ms;
}

function reasonIn(field: string | string[] | undefined): DeathReason | undefined {
  if (!field) return undefined;
  const reason = DEATH_REASONS.find((each) => each === field);
  if (!reason) throw new BusError('bad_body', `a reason must be one of ${DEATH_REASONS.join(', ')}`);
  return reason;
}

function important(text: string): Html {
  return html`<p><b>${text}</b></p>`;
}

/** Writes a number of dead letters with all digits, because a person decides by this number whether to go on. */
const exactly = (value: number) => `${value.toLocaleString('en')} dead ${value === 1 ? 'letter' : 'letters'}`;
const VERBS = { retry: ['Retry', 'Retrying', 'Retried'], purge: ['Purge', 'Purging', 'Purged'] } as const;

/** Returns a line that says what a bulk operation does, and how far it is. */
export function headline(bulk: Pick<Bulk, 'act' | 'state' | 'matched' | 'done'>): string {
  const { act, state, matched, done } = bulk;
  const [does, doing, did] = VERBS[act];
  if (state === 'counting') return `Counting to ${does.toLowerCase()}: ${exactly(matched)} so far`;
  if (state === 'counted')
    return matched === 0
      ? 'No dead letter matches'
      : `${exactly(matched)} ${matched === 1 ? 'matches' : 'match'}`;
  if (state === 'running')
    return `${doing} ${exactly(matched)}: ${Math.floor((100 * done) / Math.max(1, matched))} %`;
  return `${did} ${exactly(done)}${state === 'cancelled' ? `, then stopped` : ''}`;
}

function shown(bulk: Bulk, call: PageCall | false, nowMs: number): Html {
  return html`<h1>${headline(bulk)}</h1>
<p>${filterOf(bulk, nowMs)}</p>
${bulk.state === 'running' && progress(bulk, nowMs)}
${bulk.state === 'counting' && html`<p class="hint">Nothing is changed before you confirm. If this number stands still, no worker runs.</p>`}
${isOver(bulk) && outcome(bulk, nowMs)}
${call && html`<div class="acts">${acts(bulk, call)}</div>`}`;
}

function filterOf({ tokens, reason, fromMs, untilMs }: Bulk, nowMs: number): Content {
  return [
    tokens
      ? html`Of ${tokens.map((each, index) => [index > 0 && ' ', linkToQueue(each)])}`
      : 'Of all subscribers',
    reason !== undefined && html`, with the reason <span class="mono">${reason}</span>`,
    (fromMs ?? untilMs) !== undefined && ', that died',
    fromMs !== undefined && html` from ${ago(fromMs, nowMs)}`,
    untilMs !== undefined && html` until ${ago(untilMs, nowMs)}`,
    '.',
  ];
}

function progress({ matched, done, left, beganAtMs }: Bulk, nowMs: number): Html {
  const ended = done + left;
  const restMs = ((nowMs - beganAtMs) / Math.max(1, ended)) * Math.max(0, matched - ended);
  return html`<progress max="${Math.max(1, matched)}" value="${ended}" aria-label="Progress"></progress>
<p>${ended.toLocaleString('en')} of ${matched.toLocaleString('en')}${ended > 0 && ended < matched && `, about ${duration(Math.max(1000, restMs))} left`}</p>
<p class="hint">You may leave this page: the workers go on, and Dead letters leads back here. While memory is short, nothing is retried.</p>`;
}

function isOver({ state }: Bulk): boolean {
  return state === 'ended' || state === 'cancelled';
}

function outcome({ matched, done, left, beganAtMs, endedAtMs = beganAtMs }: Bulk, nowMs: number): Html {
  const gone = Math.max(0, matched - done - left);
  return html`<p>It took ${duration(endedAtMs - beganAtMs)}, and ended ${ago(endedAtMs, nowMs)}. ${
    left > 0 &&
    `${exactly(left)} stayed, as their subscriber has left, or another program has written their keys. `
  }${gone > 0 && `${exactly(gone)} of those that were counted were not touched.`}</p>`;
}

function acts({ id, act, state, matched }: Bulk, call: PageCall): Content {
  const content = hidden({ id });
  const [does] = VERBS[act];
  const stop = form(call, {
    action: `${BULK_PATH}/cancel`,
    does: state === 'running' ? 'Stop' : 'Cancel',
    content,
  });
  if (state === 'running' || state === 'counting') return stop;
  if (state !== 'counted' || matched === 0) return undefined;
  return [
    form(call, {
      action: `${BULK_PATH}/confirm`,
      does: `${does} ${exactly(matched)}`,
      content,
      isDangerous: act === 'purge',
    }),
    stop,
  ];
}

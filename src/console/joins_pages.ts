import type { JoinReport, OpenKey } from '../flow/joins/join_report.ts';
import type { JoinRules } from '../flow/joins/join_rules.ts';
import { type Content, type Html, html } from '../html.ts';
import type { Route } from '../routing/route.ts';
import type { ApiCalls } from './api_calls.ts';
import { ago, count, exactDuration, number } from './format.ts';
import { pathOf } from './links.ts';
import { boxes, type Columns, table } from './parts.ts';
import { change, listing, pageOfOne, removal } from './ruled_pages.ts';

type Join = JoinReport & { keys: OpenKey[] };

const EXAMPLE = {
  sources: [{ topic: 'orders_paid' }, { topic: 'parcels_packed', count: 2 }],
  by: 'data.order_id',
  then: { topic: 'orders_ready', type: 'update' },
  within: 86_400_000,
};

/** The listing of joins, and a page for each join with its open keys: those that still wait for a source. */
export function joinsPages(api: ApiCalls): Route[] {
  return [
    listing(api, 'join', EXAMPLE, columns),
    pageOfJoin(api),
    change(api, 'join', rulesOf),
    removal(api, 'join'),
  ];
}

function columns(nowMs: number, isOwn: boolean): Columns<JoinReport> {
  return [
    { name: 'Join', cell: linkTo },
    !isOwn && { name: 'Client', cell: ({ client }) => html`<span class="mono">${client}</span>` },
    { name: 'Waits for', cell: sourcesOf },
    { name: 'Publishes to', cell: ({ then }) => html`<span class="mono">${then.topic}</span>` },
    { name: 'Open keys', isAmount: true, cell: ({ open }) => number(open) },
    { name: 'Oldest', cell: ({ oldest }) => oldest !== null && ago(oldest, nowMs) },
    { name: 'Completed', isAmount: true, cell: ({ completed }) => number(completed) },
    { name: 'Expired', isAmount: true, cell: ({ expired }) => number(expired) },
    { name: 'Dropped', isAmount: true, cell: ({ dropped }) => number(dropped) },
  ];
}

function pageOfJoin(api: ApiCalls): Route {
  return pageOfOne(api, 'join', async (call) => {
    const asked = { params: call.params, query: { client: call.query.client } };
    const { body: join } = await api.call<Join>('GET /joins/:name', call, asked);
    const warning = `Forgets ${count(join.open, 'open key')} and ${count(join.events.queued, 'queued event')}.`;
    return { now: shown(join, await api.nowMs()), rules: rulesOf(join), warning };
  });
}

function rulesOf({ sources, by, then, within, on_expiry }: Join): Record<keyof JoinRules, unknown> {
  return { sources, by, then, within, on_expiry };
}

function linkTo({ name, client }: JoinReport): Html {
  return html`<a class="mono" href="${pathOf('join', name, client)}">${name}</a>`;
}

function sourcesOf({ sources }: JoinReport): Content {
  return sources.map(
    ({ topic, count: needed = 1 }) =>
      html`<span class="tag mono">${topic}${needed > 1 && ` × ${needed}`}</span> `,
  );
}

function shown(join: Join, nowMs: number): Html {
  const figures = boxes([
    ['Open keys', number(join.open)],
    ['Oldest', join.oldest === null ? '–' : ago(join.oldest, nowMs)],
    ['Completed', number(join.completed)],
    ['Expired', number(join.expired)],
    ['Events without a key', number(join.unkeyed)],
    ['Not counted yet', count(join.events.queued, 'event')],
    ['Dropped', join.dropped > 0 ? count(join.dropped, 'event') : 'nothing'],
    join.dropped_at !== null && ['Last dropped', ago(join.dropped_at, nowMs)],
  ]);
  const keys = table(
    [
      { name: 'Key', cell: ({ key }) => html`<span class="mono">${key}</span>` },
      {
        name: 'Has',
        cell: ({ counts }) =>
          Object.entries(counts).map(([topic, n]) => html`<span class="tag mono">${topic} × ${n}</span> `),
      },
      { name: 'Open', cell: ({ since }) => ago(since, nowMs) },
      { name: 'Expires', cell: ({ expires_at }) => ago(expires_at, nowMs) },
    ],
    join.keys,
    'No key is open.',
  );
  return html`<h1 class="mono">${join.name}</h1>
${figures}
<h2>Rules</h2>
<dl class="settings card"><dt>Client</dt><dd class="mono">${join.client}</dd><dt>Waits for</dt><dd>${sourcesOf(join)}</dd><dt>By</dt><dd class="mono">${join.by}</dd>
<dt>Within</dt><dd>${exactDuration(join.within)}</dd><dt>Publishes to</dt><dd class="mono">${join.then.topic}</dd>
${join.on_expiry && html`<dt>On expiry to</dt><dd class="mono">${join.on_expiry.topic}</dd>`}</dl>
<h2>Oldest open keys</h2>${keys}`;
}

import { type Content, html } from '../html.ts';
import type { AuditEntry } from '../records/audit_api.ts';
import { ACTIONS } from '../routing/actions.ts';
import { type Route, WATCHERS } from '../routing/route.ts';
import type { ApiCalls } from './api_calls.ts';
import { ago, count } from './format.ts';
import { listingPage } from './listing_page.ts';
import { optionsOf, pathWith } from './parts.ts';

const PATH = '/console/audit';

/** A page that lists who changed what. */
export function auditPage(api: ApiCalls): Route {
  return listingPage<AuditEntry>(
    api,
    { path: PATH, roles: WATCHERS, title: 'Audit', name: 'GET /audit' },
    ({ query: { action, client, target } }, nowMs, _entries, hasNext) => ({
      above: html`<h1>Who did what</h1>
<form method="get" action="${PATH}" class="filter">
<label>Client <input name="client" value="${client}"></label>
<label>What <select name="action">${optionsOf(ACTIONS, 'anything', action)}</select></label>
<label>Of what <input name="target" value="${target}"></label>
<button class="quiet">Filter</button></form>`,
      columns: [
        { name: 'When', cell: ({ at }) => ago(at, nowMs) },
        { name: 'Who', cell: (entry) => who(entry, action) },
        { name: 'From', cell: ({ address }) => html`<span class="mono">${address}</span>` },
        { name: 'What', cell: ({ action }) => html`<span class="mono">${action}</span>` },
        { name: 'Of what', cell: ({ target }) => html`<span class="mono">${target}</span>` },
        { name: 'Outcome', cell: outcome },
      ],
      empty:
        action || client || target
          ? `Nothing matches${hasNext ? ' here; look at the next page' : ''}.`
          : 'Nobody has changed anything yet.',
    }),
  );
}

/**
 * Returns who made a call. A client is shown as a link to the list of its calls, so that nobody has to type the
 * client's name into the filter.
 */
function who({ role, client }: AuditEntry, action: string | undefined): Content {
  if (client !== null)
    return html`<a class="mono" href="${pathWith(PATH, { client, action })}">${client}</a>`;
  return role === 'bus' ? 'the bus' : role;
}

function outcome({ role, status, code, subscriptions }: AuditEntry) {
  if (role === 'bus') return html`<span class="state warn">callback answered ${status}</span>`;
  if (status >= 400) return html`<span class="state warn">${status} ${code}</span>`;
  const ended = subscriptions ? `, ${count(subscriptions, 'subscription')} ended` : '';
  return html`<span class="state good">done</span>${ended}`;
}

import { html } from '../html.ts';
import type { TailEntry } from '../records/tail.ts';
import { type Route, WATCHERS } from '../routing/route.ts';
import type { ApiCalls } from './api_calls.ts';
import { readableJson } from './fields.ts';
import { ago, bytes, count } from './format.ts';
import { listingPage } from './listing_page.ts';
import { copyable } from './parts.ts';

const PATH = '/console/tail';

/** A page that shows events as they are accepted. */
export function tailPage(api: ApiCalls): Route {
  const about = { path: PATH, roles: WATCHERS, title: 'Live tail', name: 'GET /tail' } as const;
  return listingPage<TailEntry>(
    api,
    { ...about, query: {}, liveId: 'tail' },
    ({ query: { topic } }, nowMs) => ({
      above: html`<h1>Live tail</h1>
<form method="get" action="${PATH}" class="filter"><label>Topic <input name="topic" value="${topic}" pattern="[a-z0-9_]{1,64}" title="a-z, 0-9 and _" autocapitalize="none" spellcheck="false"></label>
<button class="quiet">Show</button>
<button type="button" class="quiet needs-js" data-pause="tail">Pause</button></form>
<p class="hint">Of each second and web process, the first 25 events. Those that the bus publishes itself, by triggers, joins and delays, are not shown. <span class="needs-js">Select text, or pause, to stop the list for a while.</span></p>`,
      columns: [
        { name: 'When', cell: ({ at }) => ago(at, nowMs) },
        { name: 'Topic', cell: ({ topic }) => html`<span class="mono">${topic}</span>` },
        { name: 'Client', cell: ({ client }) => html`<span class="mono">${client}</span>` },
        { name: 'Event', cell: shown },
        {
          name: 'Left out before',
          isAmount: true,
          cell: ({ skipped }) => skipped > 0 && html`<span class="none">${count(skipped, 'event')}</span>`,
        },
      ],
      empty: html`No event has come since you began to look. <span class="needs-js">New ones appear within two seconds.</span>
<noscript>Reload the page to see new ones.</noscript>`,
    }),
  );
}

function shown({ event, bytes: length }: TailEntry) {
  if (event === null) return html`<span class="none">${bytes(length)}, too long to be shown</span>`;
  const data = event.data !== undefined && html`<span class="none">${JSON.stringify(event.data)}</span>`;
  return html`<details class="event"><summary class="mono">${`${event.type} ${event.url}`} ${data}</summary>${copyable(readableJson(event))}</details>`;
}

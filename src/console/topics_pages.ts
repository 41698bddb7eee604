import { html } from '../html.ts';
import { ALL, type Route } from '../routing/route.ts';
import type { Topic } from '../subscribing/topic.ts';
import type { ApiCalls } from './api_calls.ts';
import { number } from './format.ts';
import { listingPage } from './listing_page.ts';
import { nameForm } from './parts.ts';
import { PATH, removal } from './topic_changes.ts';
import { isOwn } from './topic_page.ts';

/** A page that lists topics, with a form to remove each topic that the visitor may remove. */
export function topicsPages(api: ApiCalls): Route[] {
  const listing = { path: PATH, roles: ALL, title: 'Topics', name: 'GET /topics', liveId: 'topics' } as const;
  return [
    listingPage<Topic>(api, listing, (call) => ({
      above: [html`<h1>Topics</h1>`, nameForm(PATH, { name: call.query.name })],
      columns: [
        { name: 'Topic', cell: ({ name }) => html`<a class="mono" href="${PATH}/${name}">${name}</a>` },
        {
          name: 'Publisher',
          cell: ({ publisher }) =>
            html`<span class="${publisher ? 'mono' : 'none'}">${publisher ?? 'nobody yet'}</span>`,
        },
        { name: 'Events ever', isAmount: true, cell: ({ events }) => number(events) },
        { name: 'Waiting for their time', isAmount: true, cell: ({ delayed }) => number(delayed) },
        { name: '', cell: (topic) => isOwn(call, topic) && removal(call, topic.name) },
      ],
      empty: call.query.name
        ? html`No topic has a name like this. <a href="${PATH}">Show all</a>.`
        : 'There is no topic yet. A topic begins with the first event that is published to it.',
    })),
  ];
}

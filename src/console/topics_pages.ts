import { type Content, html } from '../html.ts';
import { ALL, type Route } from '../routing/route.ts';
import type { TopicSort } from '../subscribing/sorted_topics.ts';
import type { Topic } from '../subscribing/topic.ts';
import type { ApiCalls } from './api_calls.ts';
import { ago, number } from './format.ts';
import { FIRST_PAGE, listingPage } from './listing_page.ts';
import { nameForm, pathWith, rateOf } from './parts.ts';
import { PATH, removal } from './topic_changes.ts';
import { isOwn } from './topic_page.ts';

const FIRST_SORT: TopicSort = 'name';

/** The list of topics, sorted by name or rate, with a form to remove each topic that the visitor may remove. */
export function topicsPage(api: ApiCalls): Route {
  const about = { path: PATH, roles: ALL, title: 'Topics', name: 'GET /topics' } as const;
  const listing = { ...about, query: { ...FIRST_PAGE, sort: FIRST_SORT }, liveId: 'topics' };
  return listingPage<Topic>(api, listing, (call, nowMs, entries) => {
    const { sort, name } = call.query;
    const by = (own: TopicSort) => ({
      path: pathWith(PATH, { sort: own, name }),
      isCurrent: own === (sort ?? FIRST_SORT),
    });
    return {
      above: [html`<h1>Topics</h1>`, nameForm(PATH, { name, sort })],
      columns: [
        {
          name: 'Topic',
          sort: by('name'),
          cell: ({ name }) => html`<a class="mono" href="${PATH}/${name}">${name}</a>`,
        },
        {
          name: 'Publisher',
          cell: ({ publisher }) =>
            html`<span class="${publisher ? 'mono' : 'none'}">${publisher ?? 'nobody yet'}</span>`,
        },
        { name: 'Published', sort: by('rate'), isAmount: true, cell: rateOf },
        { name: 'Events ever', isAmount: true, cell: ({ events }) => number(events) },
        { name: 'Delayed', isAmount: true, cell: ({ delayed }) => number(delayed) },
        { name: '', cell: (topic) => isOwn(call, topic) && removal(call, topic.name, 'Remove…') },
      ],
      empty: name
        ? html`No topic has a name like this. <a href="${PATH}">Show all</a>.`
        : 'There is no topic yet. A topic begins with the first event that is published to it.',
      remark: computedAt(entries, nowMs),
    };
  });
}

/** Returns the hint below the list that says over which time the rates are taken, and when they were computed. */
function computedAt(rows: readonly Topic[], nowMs: number): Content {
  const asOf = rows.find(({ lately }) => lately)?.lately?.as_of;
  if (asOf === undefined) return undefined;
  return html`<p class="hint">Published is a mean in which the last minute counts most. Rates are as of ${ago(asOf, nowMs)}; workers look every ten seconds.</p>`;
}

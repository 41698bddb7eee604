import { html } from '../html.ts';
import { ALL, type Route } from '../routing/route.ts';
import type { Topic } from '../subscribing/topic.ts';
import type { ApiCalls } from './api_calls.ts';
import { number } from './format.ts';
import { live } from './layout.ts';
import { page } from './page.ts';
import { ANY_QUERY, nextPage, pathWith, table } from './parts.ts';
import { PATH, removal } from './topic_changes.ts';
import { isOwn } from './topic_page.ts';

/** A page that lists topics, with a form to remove each topic that the visitor may remove. */
export function topicsPages(api: ApiCalls): Route[] {
  return [
    page(PATH, ALL, {
      query: ANY_QUERY,
      async show(call) {
        const query = { limit: '100', ...call.query };
        const { body, next } = await api.call<Topic[]>('GET /topics', call, { query });
        const rows = table(
          [
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
          body,
          'There is no topic yet. A topic begins with the first event that is published to it.',
        );
        return {
          title: 'Topics',
          current: PATH,
          body: live('topics', pathWith(PATH, call.query), [
            html`<h1>Topics</h1>`,
            rows,
            nextPage(PATH, next),
          ]),
        };
      },
    }),
  ];
}

import { BusError } from '../errors.ts';
import { html } from '../html.ts';
import type { HistoryReport } from '../metrics/history_api.ts';
import { ALL, BOTH, type Route } from '../route.ts';
import type { Topic } from '../subscribing/topic.ts';
import { TOPIC_PARAMS } from '../subscribing/topics_api.ts';
import type { ApiCalls } from './api_calls.ts';
import { number } from './format.ts';
import { live } from './layout.ts';
import { action, page } from './page.ts';
import { ANY_FIELDS, ANY_QUERY, confirmed, nextPage, pathWith, table, typeIt } from './parts.ts';
import { plots } from './plots.ts';

const PATH = '/console/topics';

/** A page that lists topics, where one can be removed, and a page with the plots of each. */
export function topicsPages({ api }: { api: ApiCalls }): Route[] {
  return [
    page(PATH, ALL, {
      query: ANY_QUERY,
      async show(call) {
        const query = { limit: '100', ...call.query };
        const { body, next } = await api.call<Topic[]>('GET /topics', call, { query });
        const isOwn = ({ publisher }: Topic) =>
          call.caller.role === 'root' || (call.caller.role === 'client' && publisher === call.caller.token);
        const removal = (name: string) =>
          confirmed(call, 'Remove…', 'Its subscriptions end. Events that are queued are still delivered.', {
            action: `${PATH}/${name}/remove`,
            does: `Remove ${name}`,
            content: typeIt(name),
          });
        const rows = table(
          [
            { name: 'Topic', cell: ({ name }) => html`<a class="mono" href="${PATH}/${name}">${name}</a>` },
            {
              name: 'Publisher',
              cell: ({ publisher }) => publisher ?? html`<span class="none">nobody yet</span>`,
            },
            { name: 'Events ever', isAmount: true, cell: ({ events }) => number(events) },
            { name: 'Waiting for their time', isAmount: true, cell: ({ delayed }) => number(delayed) },
            { name: '', cell: (topic) => isOwn(topic) && removal(topic.name) },
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
    page(`${PATH}/:name`, ALL, {
      params: TOPIC_PARAMS,
      query: ANY_QUERY,
      async show(call) {
        const { name } = call.params;
        const { range } = call.query;
        const { body } = await api.call<HistoryReport>('GET /history', call, {
          query: { subject: `topic:${name}`, range },
        });
        const path = `${PATH}/${name}`;
        return {
          title: name,
          current: PATH,
          body: live('topic', pathWith(path, { range }), [
            html`<h1 class="mono">${name}</h1>`,
            plots(body, path),
          ]),
        };
      },
    }),
    action(`${PATH}/:name/remove`, BOTH, {
      action: 'topic.delete',
      params: TOPIC_PARAMS,
      form: ANY_FIELDS,
      async act(call) {
        const { name } = call.params;
        if (call.body.confirm !== name)
          throw new BusError('bad_topic', `type ${name} to remove it; nothing was changed`);
        await api.call('DELETE /topics/:name', call, { params: { name } });
        return PATH;
      },
    }),
  ];
}

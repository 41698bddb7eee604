import { z } from 'zod';
import { BusError } from '../errors.ts';
import type { JoinReport, OpenKey } from '../flow/join_report.ts';
import { type Content, type Html, html } from '../html.ts';
import { ALL, BOTH, type Input, type Route } from '../route.ts';
import type { ApiCalls } from './api_calls.ts';
import { ago, count, duration, number } from './format.ts';
import { live } from './layout.ts';
import { action, page } from './page.ts';
import { ANY_FIELDS, ANY_QUERY, boxes, confirmed, nextPage, pathWith, table, typeIt } from './parts.ts';
import { type Ruled, rulesChange, rulesForm } from './rules_form.ts';

const PATH = '/console/joins';

const NAME: Input<{ name: string }> = {
  schema: z.object({ name: z.string() }),
  wording: { code: 'join_not_found', whole: 'there is no such join' },
};

const RULED: Ruled = { path: PATH, what: 'join' };
const EXAMPLE = {
  sources: [{ topic: 'orders_paid' }, { topic: 'parcels_packed', count: 2 }],
  by: 'data.order_id',
  then: { topic: 'orders_ready', type: 'update' },
  within: 86_400_000,
};

/** A page that lists the joins, and a page for each join with its open keys. */
export function joinsPages({ api }: { api: ApiCalls }): Route[] {
  return [
    page(PATH, ALL, {
      query: ANY_QUERY,
      async show(call) {
        const query = { limit: '100', ...call.query };
        const { body, next } = await api.call<JoinReport[]>('GET /joins', call, { query });
        const nowMs = Date.now();
        const rows = table(
          [
            { name: 'Join', cell: linkTo },
            { name: 'Client', cell: ({ client }) => html`<span class="mono">${client}</span>` },
            { name: 'Waits for', cell: sourcesOf },
            { name: 'Publishes to', cell: ({ then }) => html`<span class="mono">${then.topic}</span>` },
            { name: 'Open keys', isAmount: true, cell: ({ open }) => number(open) },
            { name: 'Oldest', cell: ({ oldest }) => oldest !== null && ago(oldest, nowMs) },
            { name: 'Completed', isAmount: true, cell: ({ completed }) => number(completed) },
            { name: 'Expired', isAmount: true, cell: ({ expired }) => number(expired) },
          ],
          body,
          html`There is no join yet. A client makes one by <code>PUT /joins/:name</code>.`,
        );
        return {
          title: 'Joins',
          current: PATH,
          body: live('joins', pathWith(PATH, call.query), [
            html`<h1>Joins</h1>`,
            rows,
            nextPage(PATH, next),
            api.allows('PUT /joins/:name', call) && rulesForm(call, RULED, EXAMPLE),
          ]),
        };
      },
    }),
    page(`${PATH}/:name`, ALL, {
      params: NAME,
      query: ANY_QUERY,
      async show(call) {
        const { name } = call.params;
        const { client } = call.query;
        const { body } = await api.call<JoinReport & { keys: OpenKey[] }>('GET /joins/:name', call, {
          params: { name },
          query: { client },
        });
        const path = `${PATH}/${encodeURIComponent(name)}`;
        const removing =
          api.allows('DELETE /joins/:name', call) &&
          confirmed(
            call,
            'Remove this join…',
            `Forgets ${count(body.open, 'open key')} and ${count(body.events.queued, 'queued event')}.`,
            {
              action: `${path}/remove`,
              does: `Remove ${name}`,
              content: [typeIt(name), html`<input type="hidden" name="client" value="${client}">`],
            },
          );
        return {
          title: name,
          current: PATH,
          body: [
            live('join', pathWith(path, { client }), shown(body)),
            api.allows('PUT /joins/:name', call) && rulesForm(call, RULED, rulesOf(body), name),
            removing,
          ],
        };
      },
    }),
    rulesChange({ api }, RULED),
    action(`${PATH}/:name/remove`, BOTH, {
      action: 'join.delete',
      params: NAME,
      form: ANY_FIELDS,
      async act(call) {
        const { name } = call.params;
        if (call.body.confirm !== name)
          throw new BusError('bad_body', `type ${name} to remove this join; nothing was changed`);
        const query = { client: String(call.body.client ?? '') };
        await api.call('DELETE /joins/:name', call, { params: { name }, query });
        return PATH;
      },
    }),
  ];
}

/** Returns the rules of a join, which are the part of it that its client can change. */
function rulesOf({ sources, by, then, within, on_expiry }: JoinReport): object {
  return { sources, by, then, within, on_expiry };
}

function linkTo({ name, client }: JoinReport): Html {
  const path = pathWith(`${PATH}/${encodeURIComponent(name)}`, { client });
  return html`<a class="mono" href="${path}">${name}</a>`;
}

function sourcesOf({ sources }: JoinReport): Content {
  return sources.map(
    ({ topic, count: needed = 1 }) =>
      html`<span class="tag mono">${topic}${needed > 1 && ` × ${needed}`}</span> `,
  );
}

function shown(join: JoinReport & { keys: OpenKey[] }): Html {
  const nowMs = Date.now();
  const shown: [string, Content][] = [
    ['Open keys', number(join.open)],
    ['Oldest', ago(join.oldest, nowMs)],
    ['Completed', number(join.completed)],
    ['Expired', number(join.expired)],
    ['Events without a key', number(join.unkeyed)],
    ['Not counted yet', count(join.events.queued, 'event')],
  ];
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
${boxes(shown)}
<h2>Rules</h2>
<dl class="settings card"><dt>Waits for</dt><dd>${sourcesOf(join)}</dd><dt>By</dt><dd class="mono">${join.by}</dd>
<dt>Within</dt><dd>${duration(join.within)}</dd><dt>Publishes to</dt><dd class="mono">${join.then.topic}</dd></dl>
<h2>Oldest open keys</h2>${keys}`;
}

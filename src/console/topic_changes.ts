import { type Html, html } from '../html.ts';
import { EVENT_TYPES } from '../publishing/event.ts';
import { BOTH, CLIENTS, type Route } from '../routing/route.ts';
import { TOPIC_PARAMS } from '../subscribing/topics_api.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { jsonOf } from './fields.ts';
import { action, forwarding } from './page.ts';
import { backTo, checkTyped, confirmed, form, hidden, pathWith, typeIt } from './parts.ts';

export const PATH = '/console/topics';

/** Returns a form that publishes an event to all subscribers of a topic. */
export function publishing(call: PageCall, name: string): Html {
  return html`<h2>Publish an event</h2><div class="card">${form(call, {
    action: `${PATH}/${name}/publish`,
    does: 'Publish it',
    content: (fields) => html`<p class="hint">All subscribers of this topic get it.</p>
<div class="filter"><label>Type ${fields.select('type', EVENT_TYPES)}</label>
<label>URL ${fields.input('url', html`type="url" required size="36"`, 'https://example.com/test')}</label></div>
<label>Data, as JSON ${fields.textArea('data', html`rows="3" cols="60" placeholder="none" spellcheck="false"`)}</label>`,
  })}</div>`;
}

export function takingBack(call: PageCall, name: string, id: string): Html {
  const content = hidden({ id });
  return form(call, { action: `${PATH}/${name}/take_back`, does: 'Take back', content });
}

/** Returns a form that makes another client the publisher of a topic. */
export function giving(call: PageCall, name: string): Html {
  return confirmed(
    call,
    'Give this topic to another client…',
    'Its present publisher, if there is one, can no longer publish to it. Subscriptions and events stay.',
    {
      action: `${PATH}/${name}/give`,
      does: 'Give it to this client',
      content: (fields) =>
        html`<label>Token of the client ${fields.input('client', html`required autocomplete="off" autocapitalize="none" spellcheck="false"`)}</label>`,
    },
  );
}

/** Returns a form that removes a topic, folded below `summary`. The person must type the topic's name. */
export function removal(call: PageCall, name: string, summary: string): Html {
  return confirmed(call, summary, 'Its subscriptions end. Events that are queued are still delivered.', {
    action: `${PATH}/${name}/remove`,
    does: `Remove ${name}`,
    content: (fields) => typeIt(fields, name),
  });
}

/**
 * The routes of the forms on the page of a topic: publish an event, take back delayed events, make another client the
 * publisher, and remove the topic. `maxBytes` is the maximum length of a form with an event.
 */
export function topicChanges(api: ApiCalls, maxBytes: number): Route[] {
  return [
    action(`${PATH}/:name/publish`, CLIENTS, {
      params: TOPIC_PARAMS,
      maxBodyBytes: maxBytes,
      async act(call) {
        const { name } = call.params;
        const { type, url, data } = call.body;
        const text = JSON.stringify({ type, url, ...(data && { data: jsonOf(call.body, 'data') }) });
        await api.call('POST /topics/:name', call, { params: { name }, text });
        return pathWith(`${PATH}/${name}`, { done: 'published' });
      },
    }),
    action(`${PATH}/:name/take_back`, BOTH, {
      action: 'delayed_event.delete',
      params: TOPIC_PARAMS,
      async act(call) {
        const { name } = call.params;
        const params = { name, id: String(call.body.id) };
        await api.call('DELETE /topics/:name/delayed/:id', call, { params });
        return `${PATH}/${name}`;
      },
    }),
    forwarding(api, 'PUT /topics/:name/publisher', `${PATH}/:name/give`, {
      asked({ params, body: { client }, about }) {
        about?.(params.name, String(client));
        return { body: { client } };
      },
      next: ({ params }) => `${PATH}/${params.name}`,
    }),
    forwarding(api, 'DELETE /topics/:name', `${PATH}/:name/remove`, {
      check: ({ body, params }) => checkTyped(body, params.name, 'topic'),
      next: (call) => backTo(PATH, call),
    }),
  ];
}

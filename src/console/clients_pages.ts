import type { ClientReport } from '../authentication/api_tokens_api.ts';
import { BusError } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import { ROOT, type Route, WATCHERS } from '../routing/route.ts';
import type { Subscribers } from '../subscribing/subscriber.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { type AnyFields, wordsIn } from './fields.ts';
import type { FormFields } from './filled_form.ts';
import { ago } from './format.ts';
import { commonField } from './layout.ts';
import { subscriberPath } from './links.ts';
import { listingPage } from './listing_page.ts';
import { action, forwarding } from './page.ts';
import {
  backTo,
  checkTyped,
  checkUnchanged,
  confirmed,
  form,
  hidden,
  nameForm,
  typeIt,
  wasField,
} from './parts.ts';

const PATH = '/console/clients';

export interface ClientsParts {
  subscribers: Pick<Subscribers, 'has'>;
}

/** A page that lists the clients. Root can make, limit and remove clients there, and replace their secrets. */
export function clientsPages({ api, subscribers }: ClientsParts & { api: ApiCalls }): Route[] {
  return [
    listing(api, subscribers),
    action(PATH, ROOT, {
      action: 'client.create',
      async act(call) {
        await checkFirst(call);
        const body = { name: call.body.name, secret: true, ...limitsIn(call.body) };
        const made = await api.call<MadeSecret>('POST /api_tokens', call, { body });
        call.about?.(undefined, made.body.token);
        return secretPage(made.body);
      },
    }),
    ...changes(api),
  ];

  /**
   * Throws if a client of this name was made after the form was shown. The hidden field `was` has the time at which it
   * was shown. This check is for a person who reloads the page that shows the new secret: the browser then sends the
   * form again, and without the check the bus would make a second client.
   */
  async function checkFirst(call: PageCall & { body: AnyFields }): Promise<void> {
    const { name, was } = call.body;
    const { body } = await api.call<ClientReport[] | undefined>('GET /api_tokens', call);
    const made = body?.find((each) => each.name === name && Number(each.created_at) > Number(was));
    if (!made) return;
    const what = `${made.token} was made meanwhile; if nobody has its secret, make a new one in the list`;
    const members = { field: 'name' };
    throw new BusError('bad_client', `${what}. To make another client, send this again`, { members });
  }
}

function listing(api: ApiCalls, subscribers: ClientsParts['subscribers']): Route {
  const about = { path: PATH, roles: WATCHERS, title: 'Clients', name: 'GET /api_tokens' } as const;
  return listingPage<ClientReport>(api, about, async (call, nowMs, clients) => {
    const mayChange = api.allows('POST /api_tokens', call);
    // If a client has subscribed, its token in the list is a link to the page of the subscriber. If the partition of
    // the subscriber is away, there is no link.
    const found = await Promise.all(clients.map(({ token }) => subscribers.has(token).catch(() => false)));
    const subscribed = new Set(clients.flatMap(({ token }, index) => (found[index] ? token : [])));
    const { name: sought } = call.query;
    return {
      above: [html`<h1>Clients</h1>`, nameForm(PATH, { name: sought })],
      columns: [
        { name: 'Name', cell: ({ name }) => html`<span class="mono">${name}</span>` },
        {
          name: 'Token',
          cell: ({ token }) =>
            subscribed.has(token)
              ? html`<a class="mono" href="${subscriberPath(token)}">${token}</a>`
              : html`<span class="mono">${token}</span>`,
        },
        { name: 'May publish to', cell: ({ publish }) => topics(publish) },
        { name: 'May subscribe to', cell: ({ subscribe }) => topics(subscribe) },
        {
          name: 'Secret made',
          cell: ({ secret_at }) => (secret_at === null ? NO_SECRET : ago(secret_at, nowMs)),
        },
        { name: 'Last seen', cell: ({ last_seen_at }) => ago(last_seen_at, nowMs) },
        mayChange && { name: '', cell: (client) => forms(call, client) },
      ],
      empty: sought
        ? html`No client has a name like this. <a href="${PATH}">Show all</a>.`
        : 'There is no client yet. A service needs one to publish or to subscribe.',
      below: mayChange && creation(call, nowMs),
    };
  });
}

function forms(call: PageCall, client: ClientReport): Html {
  const { name, token } = client;
  const own = `${PATH}/${encodeURIComponent(token)}`;
  return html`${confirmed(
    call,
    'Limit…',
    'Subscriptions and joins that the limits do not permit end, and triggers pause.',
    {
      action: `${own}/limit`,
      does: `Limit ${name}`,
      content: (fields) => [limitFields(fields, client), wasField(limitsOf(client))],
    },
  )}${
    client.secret_at !== null &&
    confirmed(call, 'New secret…', 'The old secret works for a day more.', {
      action: `${own}/rotate`,
      does: `Make a new secret for ${name}`,
      isDangerous: false,
      content: hidden({ secret_at: client.secret_at }),
    })
  }${confirmed(
    call,
    'Remove…',
    `${name} can no longer call, and its subscriber, queue and dead letters are deleted.`,
    {
      action: `${own}/remove`,
      does: `Remove ${name}`,
      content: (fields) => typeIt(fields, name),
    },
  )}`;
}

function changes(api: ApiCalls): Route[] {
  return [
    action(`${PATH}/:token/limit`, ROOT, {
      action: 'client.limit',
      async act(call) {
        const what = 'these limits meanwhile; this form would replace those in the list';
        checkUnchanged(call.body, limitsOf(await find(call)), { code: 'bad_client', field: 'publish', what });
        await api.call('PUT /api_tokens/:token', call, { params: call.params, body: limitsIn(call.body) });
        return backTo(PATH, call);
      },
    }),
    forwarding(api, 'POST /api_tokens/:token/secret', `${PATH}/:token/rotate`, {
      // If a person reloads the page that shows the new secret, the browser sends the form again. So the form says when
      // the secret to replace was made (`secret_at`), and the API refuses the form if there is a newer secret.
      asked: ({ body }) => ({ body: { secret_at: Number(body.secret_at) } }),
      next: (_, made: MadeSecret) => secretPage(made),
    }),
    action(`${PATH}/:token/remove`, ROOT, {
      action: 'client.delete',
      async act(call) {
        const { token } = call.params;
        const client = await find(call);
        checkTyped(call.body, client.name, 'client');
        await api.call('DELETE /api_tokens/:token', call, { params: { token } });
        return backTo(PATH, call);
      },
    }),
  ];

  async function find(call: PageCall & { params: { token: string } }): Promise<ClientReport> {
    const { body } = await api.call<ClientReport[] | undefined>('GET /api_tokens', call);
    const client = body?.find(({ token }) => token === call.params.token);
    if (!client) throw new BusError('client_not_found', 'there is no such client');
    return client;
  }
}

function topics(patterns: readonly string[] | undefined) {
  if (!patterns) return html`<span class="none">any topic</span>`;
  return patterns.length === 0 ? html`<span class="none">none</span>` : patterns.join(', ');
}

const NO_SECRET = html`<span class="none">none: the token is the credential</span>`;

/** What an operator types into a form field of topics to permit no topic at all. An empty field permits every topic. */
const NO_TOPIC = '-';

/**
 * Reads the fields that say to which topics a client may publish and subscribe. Returns them as the API takes them. An
 * empty field permits any topic, and is left out.
 */
function limitsIn(fields: AnyFields) {
  const patternsIn = (field: string) => {
    const list = wordsIn(fields[field]);
    return list.length === 0 ? undefined : list.filter((each) => each !== NO_TOPIC);
  };
  return { publish: patternsIn('publish'), subscribe: patternsIn('subscribe') };
}

function limitsOf({ publish, subscribe }: ClientReport) {
  return [publish, subscribe];
}

function limitFields(fields: FormFields, { publish, subscribe }: Partial<ClientReport>): Html {
  const written = (list: readonly string[] | undefined) => (list?.length === 0 ? NO_TOPIC : list?.join(', '));
  const field = (name: string, label: string, list: readonly string[] | undefined): Content =>
    html`<label>${label} ${fields.input(name, html`placeholder="any topic" autocapitalize="none" spellcheck="false"`, written(list))}</label>`;
  return html`<div class="fields">${field('publish', 'May publish to', publish)}${field('subscribe', 'May subscribe to', subscribe)}</div>
<p class="hint">Topics such as <code>orders</code> or <code>shop_*</code>. Empty means any topic, <code>-</code> means none.</p>`;
}

function creation(call: PageCall, nowMs: number) {
  return html`<h2>New client</h2><div class="card">${form(call, {
    action: PATH,
    does: 'Make it',
    content: (fields) =>
      html`${commonField('was', nowMs)}<div class="fields"><label>Name ${fields.input('name', html`required pattern="[a-z0-9_\\-]+" title="a-z, 0-9, _ and -" autocapitalize="none" spellcheck="false"`)}</label></div>
${limitFields(fields, {})}`,
  })}</div>`;
}

interface MadeSecret {
  token: string;
  secret: string;
}

function secretPage({ token, secret }: MadeSecret) {
  return {
    title: 'A new secret',
    current: PATH,
    body: html`<h1>Copy the secret now: it is shown this once.</h1>
<dl class="settings card"><dt>Token</dt><dd class="mono">${token}</dd><dt>Secret</dt><dd class="mono">${secret}</dd></dl>
<p><a class="button quiet" href="${PATH}">I have it</a></p>`,
  };
}

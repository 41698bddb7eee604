import { BusError } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import type { Role } from '../routing/caller.ts';
import { ALL, BOTH, type Call, MAX_BODY_BYTES, type Route } from '../routing/route.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { type AnyFields, editableJson, jsonOf } from './fields.ts';
import type { FormFields } from './filled_form.ts';
import { live, type Page } from './layout.ts';
import { pathOf, type What } from './links.ts';
import { listingPage } from './listing_page.ts';
import { action, forwarding, type PageRequest, page } from './page.ts';
import {
  type Columns,
  checkTyped,
  checkUnchanged,
  confirmed,
  EVENT_WAS_PUBLISHED,
  folded,
  hidden,
  typeIt,
  wasField,
} from './parts.ts';

// What the pages of triggers and the pages of joins have in common.

const TITLE = { trigger: 'Trigger', join: 'Join' } as const;

type AnyFormCall = Pick<Call<Role, unknown, unknown, AnyFields>, 'body' | 'about'>;

/**
 * Tells the audit (the record of changes) the name of a trigger or join, and the client that owns it. Returns the query
 * that names this client to the API.
 */
export function auditedOwner({ body, about }: AnyFormCall, name: string): { client: string } {
  const client = String(body.client ?? '');
  about?.(name, client);
  return { client };
}

/**
 * Makes the route of the page that lists triggers or joins. The page has a form for a new one, which shows `example`.
 * `isOwn` is true if the visitor is a client, which sees only its own entries. `keep` returns the part of an entry that
 * `columns` needs. Without `keep`, `columns` gets whole entries.
 */
export function listing<Listed>(
  api: ApiCalls,
  what: What,
  example: object,
  columns: (nowMs: number, isOwn: boolean) => Columns<Listed>,
  keep?: (entry: never) => Listed,
): Route {
  const path = `/console/${what}s` as const;
  const title = `${TITLE[what]}s`;
  const about = { path, roles: ALL, title, name: `GET /${what}s`, keep, liveId: `${what}s` };
  return listingPage<Listed>(api, about, (call, nowMs) => ({
    columns: columns(nowMs, call.caller.role === 'client'),
    empty: call.query.client
      ? html`This client has no ${what}. <a href="${path}">Show all</a>.`
      : html`There is no ${what} yet. A client makes one by <code>PUT /${what}s/:name</code>.`,
    below: mayChange(api, call, what) && rulesForm(call, what, example, (fields) => naming(call, fields)),
  }));
}

/** What the page of a trigger or join shows. */
interface Shown {
  /** The part that the browser fetches again every two seconds. */
  now: Content;
  /** All fields that a PUT takes. A form that changes one sends all: the PUT resets what is left out. */
  rules: object;
  /** Says what a removal does. */
  warning: string;
}

type NamedCall = PageRequest<Role, { name: string }>;

/**
 * Makes the route of the page of one trigger or join, with forms that change and remove it. `show` returns the content.
 * It gets `own`, hidden fields that name the trigger or join, and must put them into each form.
 */
export function pageOfOne(
  api: ApiCalls,
  what: What,
  show: (call: NamedCall, own: Html) => Promise<Shown>,
): Route {
  return page(`/console/${what}s/:name`, ALL, async (call) => {
    const { name } = call.params;
    const { client, done } = call.query;
    if (!client && call.caller.role !== 'client') return askWhose(what, name);
    const own = hidden({ name, client });
    const { now, rules, warning } = await show(call, own);
    return {
      title: `${TITLE[what]} ${name}`,
      current: `/console/${what}s`,
      body: [
        done && EVENT_WAS_PUBLISHED,
        live(what, pathOf(what, name, client), now),
        mayChange(api, call, what) && rulesForm(call, what, rules, () => [own, wasField(rules)], name),
        api.allows(`DELETE /${what}s/:name`, call) &&
          confirmed(call, `Remove this ${what}…`, warning, {
            action: `${pathOf(what, name, undefined)}/remove`,
            does: `Remove ${name}`,
            content: (fields) => [typeIt(fields, name), own],
          }),
      ],
    };
  });
}

/**
 * Returns the page for an address without the parameter `client`, for example one typed by hand. It asks whose trigger
 * or join is meant, because several clients may have one of this name.
 */
function askWhose(what: What, name: string): Page {
  const list = `/console/${what}s`;
  return {
    title: `Whose ${what}?`,
    current: list,
    status: 400,
    body: html`<h1>Whose ${what}?</h1>
<p>Each client may have a ${what} called <span class="mono">${name}</span>. Choose one in the list: <a href="${list}">${TITLE[what]}s</a>.</p>`,
  };
}

function mayChange(api: ApiCalls, call: PageCall, what: What): boolean {
  return api.allows(`PUT /${what}s/:name`, call);
}

/**
 * Makes the route for the form that stores a trigger or join. `rulesOf` returns the rules as the form shows them.
 * `maxBodyBytes` is the maximum length of the form.
 */
export function change<Whole>(
  api: ApiCalls,
  what: What,
  rulesOf: (one: Whole) => object,
  maxBodyBytes = MAX_BODY_BYTES,
): Route {
  const notFound = `${what}_not_found` as const;
  return action(`/console/${what}s`, BOTH, {
    action: `${what}.put`,
    maxBodyBytes,
    async act(call) {
      const name = String(call.body.name);
      const query = auditedOwner(call, name);
      const present = await read(call, name, query);
      const { is_new, was } = call.body;
      const code = `bad_${what}` as const;
      if (is_new && present)
        throw new BusError(code, `there is a ${what} with this name; change it on its own page`, {
          members: { field: 'name' },
        });
      if (was && !present) throw new BusError(notFound, `somebody has removed this ${what} meanwhile`);
      if (present)
        checkUnchanged(call.body, rulesOf(present), {
          code,
          field: 'rules',
          what: `this ${what} meanwhile; this form would replace the rules above`,
        });
      await api.call(`PUT /${what}s/:name`, call, {
        params: { name },
        query,
        body: jsonOf(call.body, 'rules'),
      });
      return pathOf(what, name, query.client);
    },
  });

  async function read(call: PageCall, name: string, query: { client: string }): Promise<Whole | undefined> {
    try {
      return (await api.call<Whole>(`GET /${what}s/:name`, call, { params: { name }, query })).body;
    } catch (error) {
      if (!(error instanceof BusError)) throw error;
      if (error.code === notFound) return undefined;
      // The call has no body, so it is the name that is bad.
      if (error.code === `bad_${what}`)
        throw new BusError(error.code, error.message, { members: { field: 'name' } });
      throw error;
    }
  }
}

export function removal(api: ApiCalls, what: What): Route {
  return forwarding(api, `DELETE /${what}s/:name`, `/console/${what}s/:name/remove`, {
    asked: (call) => ({ query: auditedOwner(call, call.params.name) }),
    check: ({ body, params }) => checkTyped(body, params.name, what),
    next: () => `/console/${what}s`,
  });
}

/** Returns the form fields that name a new trigger or join. Root also names the client that will own it. */
function naming({ caller }: PageCall, fields: FormFields): Html {
  const owner =
    caller?.role === 'root' &&
    html`<label>Token of its client ${fields.input('client', html`required autocapitalize="none" spellcheck="false"`)}</label>`;
  return html`${hidden({ is_new: 'yes' })}${owner}<label>Name ${fields.input('name', html`required pattern="[a-z0-9_]+" title="a-z, 0-9 and _" autocapitalize="none" spellcheck="false"`)}</label>`;
}

/** Returns the form for a new trigger or join, or for the one called `name`. `naming` makes the fields for its name. */
function rulesForm(
  call: PageCall,
  what: What,
  rules: object,
  naming: (fields: FormFields) => Content,
  name?: string,
): Html {
  const text = editableJson(rules);
  const rows = text.split('\n').length + 1;
  const content = (fields: FormFields) =>
    html`<div class="fields">${naming(fields)}</div><label>Rules, as JSON ${fields.textArea('rules', html`rows="${rows}" cols="72" spellcheck="false" required`, text)}</label>
<p class="hint">As in the body of <code>PUT /${what}s/:name</code>; <a href="/docs">the API</a> has all fields.</p>`;
  const does = name === undefined ? 'Make it' : `Change ${name}`;
  const summary = name === undefined ? `New ${what}…` : `Change this ${what}…`;
  return folded(call, summary, { action: `/console/${what}s`, does, content });
}

import { BusError } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import type { Role } from '../routing/caller.ts';
import { ALL, BOTH, type Call, type Route } from '../routing/route.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { type AnyFields, editableJson, jsonOf } from './fields.ts';
import type { FormFields } from './filled_form.ts';
import { live, type Page } from './layout.ts';
import { pathOf, type What } from './links.ts';
import { listingPage } from './listing_page.ts';
import { action, page } from './page.ts';
import {
  ANY_QUERY,
  type Columns,
  checkTyped,
  checkUnchanged,
  confirmed,
  EVENT_WAS_PUBLISHED,
  folded,
  hidden,
  pathParameter,
  typeIt,
  wasField,
} from './parts.ts';

/**
 * How the pages of triggers and those of joins differ: the rest of their code is shared. `Listed` is an entry of the
 * list, and `Whole` is a trigger or join with all fields.
 */
export interface Ruled<Listed, Whole> {
  what: What;
  title: string;
  example: object;
  /** The columns of the list. `isOwn` is true if the visitor is a client, whose list has only its own entries. */
  columns(nowMs: number, isOwn: boolean): Columns<Listed>;
  /** Returns the part of an entry that `columns` needs, to save memory. Without it, `columns` gets whole entries. */
  keep?: (entry: never) => Listed;
  /** Query parameters of the API call that reads one trigger or join, besides `client`. */
  query?: Record<string, string>;
  /** Returns all fields that a PUT takes. A form that changes one sends all: the PUT resets what is left out. */
  rulesOf(one: Whole): object;
  /**
   * Returns the part of the page of a trigger or join that the browser fetches again every two seconds. `acts` are
   * forms to show in it.
   */
  shown(one: Whole, acts: Content, nowMs: number): Content;
  /**
   * Returns the forms that act on `one`, such as one that pauses a trigger; `shown` gets them as `acts`. They post to
   * paths below `path`. Each must contain `own`: hidden fields that name the trigger or join.
   */
  acts?(call: PageCall, path: string, one: Whole, own: Html): Content;
  warning(one: Whole): string;
}

type AnyFormCall = Pick<Call<Role, unknown, unknown, AnyFields>, 'body' | 'about'>;

/** Tells the audit the name and the owner of a trigger or join. Returns the query that names the owner to the API. */
export function auditedOwner({ body, about }: AnyFormCall, name: string): { client: string } {
  const client = String(body.client ?? '');
  about?.(name, client);
  return { client };
}

/**
 * Returns the pages of triggers or joins: a listing and a page for each, with forms to make, change and remove them.
 */
export function ruledPages<Listed, Whole>(api: ApiCalls, ruled: Ruled<Listed, Whole>): Route[] {
  return [listing(api, ruled), pageOfOne(api, ruled), change(api, ruled), removal(api, ruled.what)];
}

function listing<Listed, Whole>(api: ApiCalls, ruled: Ruled<Listed, Whole>): Route {
  const { what, title, keep } = ruled;
  const path = `/console/${what}s` as const;
  const about = { path, roles: ALL, title, name: `GET /${what}s`, keep, liveId: `${what}s` };
  return listingPage<Listed>(api, about, (call, nowMs) => ({
    columns: ruled.columns(nowMs, call.caller.role === 'client'),
    empty: call.query.client
      ? html`This client has no ${what}. <a href="${path}">Show all</a>.`
      : html`There is no ${what} yet. A client makes one by <code>PUT /${what}s/:name</code>.`,
    below:
      mayChange(api, call, what) && rulesForm(call, what, ruled.example, (fields) => naming(call, fields)),
  }));
}

function pageOfOne<Listed, Whole>(api: ApiCalls, ruled: Ruled<Listed, Whole>): Route {
  const { what } = ruled;
  return page(`/console/${what}s/:name`, ALL, {
    params: nameOf(what),
    query: ANY_QUERY,
    async show(call) {
      const { name } = call.params;
      const { client, done } = call.query;
      if (!client && call.caller.role !== 'client') return askWhose(ruled, name);
      const { body } = await api.call<Whole>(`GET /${what}s/:name`, call, {
        params: { name },
        query: { client, ...ruled.query },
      });
      const own = hidden({ name, client });
      const isChangeable = mayChange(api, call, what);
      const rules = ruled.rulesOf(body);
      const ownPath = pathOf(what, name, undefined);
      const acts = isChangeable && ruled.acts?.(call, ownPath, body, own);
      return {
        title: `${what === 'trigger' ? 'Trigger' : 'Join'} ${name}`,
        current: `/console/${what}s`,
        body: [
          done && EVENT_WAS_PUBLISHED,
          live(what, pathOf(what, name, client), ruled.shown(body, acts, await api.nowMs())),
          isChangeable && rulesForm(call, what, rules, () => [own, wasField(rules)], name),
          api.allows(`DELETE /${what}s/:name`, call) &&
            confirmed(call, `Remove this ${what}…`, ruled.warning(body), {
              action: `${ownPath}/remove`,
              does: `Remove ${name}`,
              content: (fields) => [typeIt(fields, name), own],
            }),
        ],
      };
    },
  });
}

/**
 * Returns the page for an address that lacks the client, as if typed by hand. Several clients may have a trigger or
 * join of this name.
 */
function askWhose({ what, title }: { what: What; title: string }, name: string): Page {
  const list = `/console/${what}s`;
  return {
    title: `Whose ${what}?`,
    current: list,
    status: 400,
    body: html`<h1>Whose ${what}?</h1>
<p>Each client may have a ${what} called <span class="mono">${name}</span>. Choose one in the list: <a href="${list}">${title}</a>.</p>`,
  };
}

export function nameOf(what: What) {
  return pathParameter('name', `${what}_not_found`, what);
}

function mayChange(api: ApiCalls, call: PageCall, what: What): boolean {
  return api.allows(`PUT /${what}s/:name`, call);
}

function change<Listed, Whole>(api: ApiCalls, { what, rulesOf }: Ruled<Listed, Whole>): Route {
  const notFound = `${what}_not_found` as const;
  return action(`/console/${what}s`, BOTH, {
    action: `${what}.put`,
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
      if (error instanceof BusError && error.code === notFound) return undefined;
      throw error;
    }
  }
}

function removal(api: ApiCalls, what: What): Route {
  return action(`/console/${what}s/:name/remove`, BOTH, {
    action: `${what}.delete`,
    params: nameOf(what),
    async act(call) {
      const { name } = call.params;
      const query = auditedOwner(call, name);
      checkTyped(call.body, name, what);
      await api.call(`DELETE /${what}s/:name`, call, { params: { name }, query });
      return `/console/${what}s`;
    },
  });
}

/** Returns the form fields that name a new trigger or join. Root also names the client that will own it. */
function naming({ caller }: PageCall, fields: FormFields): Html {
  const owner =
    caller?.role === 'root' &&
    html`<label>Token of its client <input ${fields.input('client')} required autocapitalize="none" spellcheck="false"></label>`;
  return html`${hidden({ is_new: 'yes' })}${owner}<label>Name <input ${fields.input('name')} required pattern="[a-z0-9_]+" title="a-z, 0-9 and _" autocapitalize="none" spellcheck="false"></label>`;
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

import { type Html, html } from '../html.ts';
import { CLIENTS, type Route } from '../route.ts';
import type { ApiCalls, Visit } from './api_calls.ts';
import { jsonOf } from './fields.ts';
import { action } from './page.ts';
import { ANY_FIELDS, form } from './parts.ts';

/** What a form creates or changes: triggers or joins. Clients write the rules of both as JSON. */
export interface Ruled {
  /** Path of the page with the form. */
  path: '/console/triggers' | '/console/joins';
  what: 'trigger' | 'join';
}

/** Returns a form with the rules of a trigger or join. Without `name` it is a form for a new one, with an example. */
export function rulesForm(visit: Visit, { path, what }: Ruled, rules: object, name?: string): Html {
  const naming =
    name === undefined
      ? html`<label>Name <input name="name" required pattern="[a-z0-9_]+" autocapitalize="none" spellcheck="false"></label>`
      : html`<input type="hidden" name="name" value="${name}">`;
  const text = JSON.stringify(rules, null, 2);
  const content = html`${naming}<label>Rules, as JSON <textarea name="rules" rows="${text.split('\n').length + 1}" cols="72" spellcheck="false" required>${text}</textarea></label>
<p class="hint">As in the body of <code>PUT /${what}s/:name</code>; <a href="/docs">the API</a> has all fields.</p>`;
  const does = name === undefined ? 'Make it' : `Change ${name}`;
  return html`<details class="confirm wide"><summary>${name === undefined ? `New ${what}…` : `Change this ${what}…`}</summary><div class="card">${form(
    visit,
    { action: path, does, content },
  )}</div></details>`;
}

/** Makes the route that handles the form with the rules of a trigger or join. */
export function rulesChange({ api }: { api: ApiCalls }, { path, what }: Ruled): Route {
  return action(path, CLIENTS, {
    action: `${what}.put`,
    form: ANY_FIELDS,
    async act(call) {
      const name = String(call.body.name);
      await api.call(`PUT /${what}s/:name`, call, { params: { name }, body: jsonOf(call.body.rules) });
      return `${path}/${encodeURIComponent(name)}`;
    },
  });
}

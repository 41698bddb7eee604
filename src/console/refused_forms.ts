import { parse } from 'node:querystring';
import { BusError, StorageUnavailable } from '../errors.ts';
import { Html, html } from '../html.ts';
import { checked } from '../http/validation.ts';
import type { Answer, Call, Route } from '../routing/route.ts';
import { parseUrl } from '../urls.ts';
import { chargeOf } from './api_calls.ts';
import type { AnyFields, Refusal } from './fields.ts';
import { type Page, withoutLists } from './layout.ts';

/**
 * Wraps the route of a form. If the form is refused, the answer is the page on which the form was. It shows the error,
 * and what the person typed. The field `from`, which every form has, names that page. If that page cannot be shown, the
 * error gets a page of its own.
 */
export function withSecondTry(route: Route, pages: readonly Route[]): Route {
  if (route.method !== 'POST') return route;
  const handle = async (call: Call): Promise<Answer> => {
    try {
      return await route.handle(call);
    } catch (error) {
      // While Redis is away, no page can be shown.
      const isShown = error instanceof BusError && !(error instanceof StorageUnavailable);
      const answer = isShown && (await pageAgain(call, error, pages));
      if (answer) return answer;
      throw error;
    }
  };
  return { ...route, handle: handle as Route['handle'] };
}

/** Resolves with the page on which a refused form was, or with undefined if it cannot be shown. */
async function pageAgain(call: Call, error: BusError, pages: readonly Route[]): Promise<Answer | undefined> {
  const { request, caller, body } = call;
  const { from, ...fields } = body as AnyFields;
  const url = typeof from === 'string' && parseUrl(from, 'http://console');
  if (!url) return undefined;
  const found = pageAt(pages, url.pathname);
  if (!found?.route.roles.includes(caller.role)) return undefined;
  const [path = ''] = (request.url ?? '').split('?');
  const refusal: Refusal = { path, from: url.pathname + url.search, fields, error };
  try {
    const { route, params } = found;
    const answer: Answer = await route.handle({
      ...{ ...call, path: url.pathname, params: checked(route.params, params), body: undefined, text: '' },
      ...{ query: checked(route.query, parse(url.search.slice(1))), refusal },
    } as Call);
    const calls = (answer.calls ?? 0) + chargeOf(call) + (error.calls ?? 0);
    return { ...answer, code: error.code, calls };
  } catch (failure) {
    if (failure instanceof BusError) return undefined;
    throw failure;
  }
}

/** Returns the route of the page at a path, and the parameters in the path. */
function pageAt(pages: readonly Route[], path: string) {
  for (const route of pages) {
    const pattern = new RegExp(`^${route.path.replace(/:(\w+)/g, '(?<$1>[^/]+)')}$`);
    const found = route.method === 'GET' && pattern.exec(path);
    if (!found) continue;
    const params = Object.entries(found.groups ?? {}).map(([name, text]) => [name, decoded(text)]);
    return { route, params: Object.fromEntries(params) as Record<string, string> };
  }
  return undefined;
}

/**
 * Returns the path of the page at a path or, if no page is there, of the nearest one above it. The address bar may have
 * the path of a form: that of a form which was refused, and is shown again. Forms are at most two levels below a page.
 */
export function pageNear(pages: readonly Route[], path: string): string {
  const above = (place: string) => place.slice(0, place.lastIndexOf('/'));
  const places = [path, above(path), above(above(path))];
  return places.find((each) => pageAt(pages, each)) ?? '/console';
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The rest of this file changes the finished HTML of a page. So no page and no form needs code of its own for a second
// try. All of the HTML comes from `html`: attributes are quoted, and no value contains a quote or an angle bracket.

const FORM = /<form method="post" action="([^"]*)">([\s\S]*?)<\/form>/g;
const FIELD = /<input\b[^>]*>|<(textarea|select)\b[^>]*>[\s\S]*?<\/\1>/g;

/**
 * Returns a page with the error of a refused form. If the page still has this form, and the form has fields to mend, it
 * shows the error and what was typed. Otherwise the page begins with the error, where no refresh of a part removes it.
 */
export function withRefusal(page: Page, refusal: Refusal): Page {
  const { error } = refusal;
  const text = html`${page.body}`.text;
  const form = [...text.matchAll(FORM)].find(([, action, content = '']) => {
    const fields = content.match(FIELD) ?? [];
    return isSame(refusal, action, fields) && fields.some(isVisible);
  });
  const body = form
    ? opened(text.slice(0, form.index)) +
      filledForm(form[0], refusal) +
      text.slice(form.index + form[0].length)
    : problem(error, false) + text;
  return {
    ...{ ...page, title: `Not done: ${page.title}`, status: error.status, body: new Html(body) },
    headers: { ...page.headers, ...withoutLists(error.headers) },
  };
}

function isVisible(field: string): boolean {
  return attributeOf(field, 'type') !== 'hidden';
}

/** True for the form that was sent. Its hidden fields distinguish it from other forms with the same action. */
function isSame({ path, fields }: Refusal, action: string | undefined, inputs: readonly string[]): boolean {
  const hidden = inputs.filter((each) => !isVisible(each));
  const isSent = (each: string) => {
    const name = attributeOf(each, 'name') ?? '';
    return /^(form_token|from)$/.test(name) || attributeOf(each, 'value') === escaped(fields[name]);
  };
  return action === escaped(path) && hidden.every(isSent);
}

/** Returns the text before a form. If the form is in a `<details>`, that is opened. */
function opened(before: string): string {
  const at = before.lastIndexOf('<details');
  if (at <= before.lastIndexOf('</details>')) return before;
  return `${before.slice(0, at)}<details open${before.slice(at + '<details'.length)}`;
}

function filledForm(form: string, { fields, error }: Refusal): string {
  const faulty = faultyField(form.match(FIELD) ?? [], error);
  const filled = form.replace(FIELD, (field) => {
    const name = attributeOf(field, 'name') ?? '';
    const again = filledField(field, [fields[name] ?? []].flat());
    return name === faulty
      ? withAttribute(again, 'aria-invalid="true" aria-describedby="refusal" autofocus')
      : again;
  });
  return filled.replace('>', () => `>${problem(error, faulty !== undefined)}`);
}

/** Returns the name of the field that is wrong. Undefined if the error names no field. */
function faultyField(fields: readonly string[], { members }: BusError): string | undefined {
  if (members.field === undefined) return undefined;
  const visible = fields.filter(isVisible);
  const named = visible.find((each) => attributeOf(each, 'name') === String(members.field).split('.')[0]);
  // If the form has no such field, the API has named a part of some JSON.
  const json = visible.find((each) => each.startsWith('<textarea'));
  return attributeOf(named ?? json ?? '', 'name');
}

/** Returns a field with what was typed. A hidden field does not change, and a secret is not sent back. */
function filledField(field: string, typed: readonly string[]): string {
  const [value] = typed;
  if (field.startsWith('<select'))
    return field.replace(/<option\b[^>]*>([^<]*)/g, (option, text) =>
      marked(option, 'selected', typed, text),
    );
  const type = attributeOf(field, 'type') ?? '';
  if (type === 'checkbox') return marked(field, 'checked', typed, 'on');
  if (value === undefined || /^(hidden|password)$/.test(type)) return field;
  if (field.startsWith('<textarea'))
    // Browsers skip a line end at the beginning.
    return `${field.slice(0, field.indexOf('>') + 1)}\n${escaped(value)}</textarea>`;
  return withAttribute(field.replace(/ value="[^"]*"/, ''), `value="${escaped(value)}"`);
}

/** Returns a checkbox or an option with a mark such as `checked` if it was chosen, and without it otherwise. */
function marked(tag: string, mark: string, chosen: readonly string[], value: string): string {
  const own = attributeOf(tag, 'value') ?? value;
  const plain = tag.replace(new RegExp(` ${mark}(?=[ >])`), '');
  return chosen.some((each) => escaped(each) === own) ? withAttribute(plain, mark) : plain;
}

function attributeOf(tag: string, name: string): string | undefined {
  return new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1];
}

function withAttribute(tag: string, attribute: string): string {
  return tag.replace('>', () => ` ${attribute}>`);
}

function escaped(value: string | string[] | undefined): string {
  return html`${value}`.text;
}

function problem({ message }: BusError, isOfField: boolean): string {
  return html`<p class="problem" role="alert" id="refusal"${!isOfField && html` tabindex="-1" autofocus`}>${message}</p>`
    .text;
}

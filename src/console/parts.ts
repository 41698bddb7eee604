import { BusError, type ErrorCode } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import { parseUrl } from '../urls.ts';
import type { PageCall } from './api_calls.ts';
import { type AnyFields, digestOf } from './fields.ts';
import { FormFields } from './filled_form.ts';
import { rate } from './format.ts';
import { commonField, tokenField } from './layout.ts';

/** Returns the path of a page with a query, without empty and undefined parameters. */
export function pathWith(path: string, query: Record<string, string | undefined>): string {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) asked.set(name, value);
  return asked.size === 0 ? path : `${path}?${asked}`;
}

/**
 * Returns the path of the page to show after a form was handled: the list at `path`. If the form was on this list, the
 * list's query, such as a filter, is kept.
 */
export function backTo(path: string, { body }: { body: AnyFields }): string {
  const from = parseUrl(String(body.from), 'http://console');
  return from?.pathname === path ? path + from.search : path;
}

export interface Column<T> {
  name: string;
  /** True for columns of numbers, which are aligned right. */
  isAmount?: true;
  /** Present if the page can be sorted by this column. `path` is the path of the page in that order. */
  sort?: { path: string; isCurrent: boolean };
  cell: (row: T) => Content;
}

/** Columns of a table. Those that are false are left out. */
export type Columns<T> = readonly (Column<T> | false)[];

/** Returns a table, or `empty` if it has no rows. */
export function table<T>(given: Columns<T>, rows: readonly T[], empty: Content): Html {
  if (rows.length === 0) return html`<div class="card empty">${empty}</div>`;
  const columns = given.filter((each) => each !== false);
  const kind = ({ isAmount }: Column<T>) => (isAmount ? 'amount' : '');
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table"><table><thead><tr>${columns.map(
    (column) => html`<th scope="col" class="${kind(column)}">${headOf(column)}</th>`,
  )}</tr></thead><tbody>${rows.map(
    (row) =>
      html`<tr>${columns.map((column) => html`<td class="${kind(column)}">${column.cell(row)}</td>`)}</tr>`,
  )}</tbody></table></div>`;
}

function headOf<T>({ name, sort }: Column<T>): Content {
  if (!sort) return name;
  return html`<a class="sort" href="${sort.path}"${sort.isCurrent && html` aria-current="true"`}>${name}</a>`;
}

/** Returns a link to the next page of a listing, if there is one. */
export function nextPage(path: string, next: Record<string, string> | undefined): Content {
  return next && html`<p><a class="button quiet" href="${pathWith(path, next)}">Next page</a></p>`;
}

interface FormOptions {
  action: string;
  /** The text on the button. */
  does: string;
  isDangerous?: boolean;
  /**
   * The content above the button. Visible fields must be made by a function, with the FormFields that it gets, so that
   * a refused form shows the error and what the person typed.
   */
  content?: Content | ((fields: FormFields) => Content);
}

/** Returns the hidden fields of every form: the form token, and the path and query of the page with the form. */
export function ownFields({ formToken, request, refusal }: PageCall): Html {
  return html`${tokenField(formToken)}${commonField('from', refusal?.from ?? request.url ?? '')}`;
}

/** Returns hidden fields with these values. Those that are undefined or empty are left out. */
export function hidden(fields: Record<string, string | number | undefined>): Html {
  return html`${Object.entries(fields).map(
    ([name, value]) =>
      value !== undefined && value !== '' && html`<input type="hidden" name="${name}" value="${value}">`,
  )}`;
}

/** Returns a form that filters the list at `path` by a name. The list keeps `others`, the rest of its query. */
export function nameForm(path: string, { name, ...others }: Record<string, string | undefined>): Html {
  return html`<form method="get" action="${path}" class="filter">${hidden(others)}<label>Name <input name="name" value="${name}" autocapitalize="none" spellcheck="false"></label>
<button class="quiet">Filter</button></form>`;
}

/** Returns the options of a `<select>`. The first one, with an empty value and the text in `none`, means no choice. */
export function optionsOf(values: readonly string[], none: string, chosen = ''): Html {
  return html`${['', ...values].map(
    (each) => html`<option value="${each}"${each === chosen && html` selected`}>${each || none}</option>`,
  )}`;
}

/**
 * Returns a hidden field with a digest of the values that a form shows. `checkUnchanged` compares the digest when the
 * form is sent.
 */
export function wasField(values: unknown): Html {
  return commonField('was', digestOf(values));
}

/**
 * Throws if the values in a form have changed since the form was shown, so that the form does not overwrite another
 * person's change. Forms without a `wasField` are not checked. `what` is the word for the values in the error, and
 * `field` is the form field that shows the error.
 */
export function checkUnchanged(
  { was }: AnyFields,
  values: unknown,
  { code, field, what }: { code: ErrorCode; field: string; what: string },
): void {
  if (!was || was === digestOf(values)) return;
  throw new BusError(code, `somebody has changed ${what}`, { members: { field } });
}

/** Returns a form with one button. */
export function form(call: PageCall, { action, does, isDangerous, content }: FormOptions): Html {
  const fields = new FormFields(call, action);
  const shown = typeof content === 'function' ? content(fields) : content;
  const problem = typeof content === 'function' && fields.problem();
  return html`<form method="post" action="${action}">${problem}${ownFields(call)}${shown}
<button class="${isDangerous ? 'danger' : 'quiet'}">${does}</button></form>`;
}

/** Returns a form that opens when a person clicks on `summary`. It is open at once if it was just refused. */
export function folded(call: PageCall, summary: string, options: FormOptions, warning?: string): Html {
  const isOpen = call.refusal?.path === options.action;
  return html`<details class="confirm${warning === undefined && ' wide'}"${isOpen && html` open`}><summary>${summary}</summary>
<div class="card">${warning !== undefined && html`<p>${warning}</p>`}${form(call, options)}</div></details>`;
}

/** Returns a folded form (see `folded`) with a warning, for changes that cannot be undone. */
export function confirmed(call: PageCall, summary: string, warning: string, options: FormOptions): Html {
  return folded(call, summary, { isDangerous: true, ...options }, warning);
}

/** Returns a field for a name that a person must type, so that nothing is removed by mistake. */
export function typeIt(fields: FormFields, name: string): Html {
  return html`<label>Type <code>${name}</code> to confirm ${fields.input('confirm', html`required autocomplete="off" autocapitalize="none" spellcheck="false"`)}</label>`;
}

/** Throws bad_body unless `name` was typed into the field of `typeIt`. `what` is the kind of thing, such as `topic`. */
export function checkTyped({ confirm }: AnyFields, name: string, what: string): void {
  if (confirm === name) return;
  const members = { field: 'confirm' };
  throw new BusError('bad_body', `type ${name} to remove this ${what}; nothing was changed`, { members });
}

/** Returns a text with a button that copies it. The button works only if scripts run. */
export function copyable(text: string): Html {
  return html`<div class="copyable"><pre tabindex="0">${text}</pre><button type="button" class="quiet needs-js" data-copy>Copy</button></div>`;
}

/** What a page says after a form on it has published an event. */
export const EVENT_WAS_PUBLISHED = html`<p class="card notice" role="status">The event was published.</p>`;

/** Stands in a table for a figure that does not exist. */
export const NONE = html`<span class="none">–</span>`;

/** Returns the rate of events of a subscriber or topic, such as 12/s. */
export function rateOf({ lately }: { lately?: { rate: number } | null | undefined }): Content {
  if (!lately || lately.rate < 0.001) return NONE;
  return rate(lately.rate);
}

/** Returns values as HTML, each in a box with its name. Those that are false are left out. */
export function boxes(shown: readonly (readonly [name: string, value: Content] | false)[]): Html {
  return html`<dl class="figures">${shown.map((each) => each && html`<div><dt>${each[0]}</dt><dd>${each[1]}</dd></div>`)}</dl>`;
}

/**
 * Returns links to variants of a page, such as other ranges of time. `all` has the text of the link for each value of a
 * query parameter.
 */
export function choices(
  all: Readonly<Record<string, string>>,
  current: string,
  pathOf: (value: string) => string,
): Html {
  const links = Object.entries(all).map(([value, name]) =>
    value === current
      ? html`<b aria-current="true">${name}</b> `
      : html`<a href="${pathOf(value)}">${name}</a> `,
  );
  return html`<p class="choices">${links}</p>`;
}

import type { BusError } from '../errors.ts';
import { Html, html } from '../html.ts';
import type { Refusal } from './fields.ts';
import { type Page, withoutLists } from './layout.ts';

// This file puts the error of a refused form, and what was typed, into the finished HTML of its page. So pages need no
// code for that. Regular expressions can find the fields, because all HTML comes from `html`: attributes are quoted,
// and values contain no quotes and no angle brackets.

const FORM = /<form method="post" action="([^"]*)">([\s\S]*?)<\/form>/g;
const FIELD = /<input\b[^>]*>|<(textarea|select)\b[^>]*>[\s\S]*?<\/\1>/g;

/**
 * Returns the page of a refused form, with the error. If the page still has the form, and the form has visible fields,
 * the error and what was typed stand in the form. Otherwise the error stands at the top of the page, outside of the
 * parts that an open page refreshes.
 */
export function withRefusal(page: Page, refusal: Refusal): Page {
  const { error } = refusal;
  const text = html`${page.body}`.text;
  const form = [...text.matchAll(FORM)].find(([, action, content = '']) => {
    const fields = content.match(FIELD) ?? [];
    return isRefusedForm(refusal, action, fields) && fields.some(isVisible);
  });
  const body = form
    ? withDetailsOpen(text.slice(0, form.index)) +
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

/**
 * True if this form of the page is the one that was refused. Forms with the same action differ in the values of their
 * hidden fields.
 */
function isRefusedForm(
  { path, fields }: Refusal,
  action: string | undefined,
  inputs: readonly string[],
): boolean {
  const hidden = inputs.filter((each) => !isVisible(each));
  const isSent = (each: string) =>
    attributeOf(each, 'data-common') !== undefined ||
    attributeOf(each, 'value') === escaped(fields[attributeOf(each, 'name') ?? '']);
  return action === escaped(path) && hidden.every(isSent);
}

/** Returns the HTML before a form. If the form is inside a closed `<details>`, opens it, so that the error is seen. */
function withDetailsOpen(before: string): string {
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

/** Returns the name of the wrong field, or undefined if the error names none. */
function faultyField(fields: readonly string[], { members }: BusError): string | undefined {
  if (members.field === undefined) return undefined;
  const visible = fields.filter(isVisible);
  const named = visible.find((each) => attributeOf(each, 'name') === String(members.field).split('.')[0]);
  // The wrong field may be inside JSON, which a person types into a text area. Then no field of the form has its name,
  // and the text area is the wrong field.
  const json = visible.find((each) => each.startsWith('<textarea'));
  return attributeOf(named ?? json ?? '', 'name');
}

/** Returns a field with what was typed. A hidden field stays as it is, and a secret is not sent back. */
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
    // Browsers ignore a line end at the beginning of a text area, so one is added. Otherwise a value that begins with a
    // line end would lose it.
    return `${field.slice(0, field.indexOf('>') + 1)}\n${escaped(value)}</textarea>`;
  return withAttribute(field.replace(/ value="[^"]*"/, ''), `value="${escaped(value)}"`);
}

/** Returns a checkbox or option with a mark such as `checked` if it was chosen, and otherwise without it. */
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

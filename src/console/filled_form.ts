import type { BusError } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import type { PageCall } from './api_calls.ts';
import type { Refusal } from './fields.ts';
import { type Page, withoutLists } from './layout.ts';

/**
 * Makes the fields of the form that is sent to `action`, with the values that the page gives them. If this form was
 * refused, the fields contain what the person typed, and the wrong field is marked.
 */
export class FormFields {
  readonly #refusal: Refusal | undefined;
  #isMarked = false;

  constructor({ refusal }: PageCall, action: string) {
    this.#refusal = refusal?.path === action ? refusal : undefined;
  }

  input(name: string, attributes: Html, value?: string | number): Html {
    const shown = this.#typed(name)[0] ?? value;
    return this.#field(name, (mark) => html`<input name="${name}" value="${shown}" ${attributes}${mark}>`);
  }

  checkbox(name: string, value: string, isChecked = false): Html {
    const isOn = this.#refusal ? this.#typed(name).includes(value) : isChecked;
    return html`type="checkbox" name="${name}" value="${value}"${isOn && html` checked`}`;
  }

  select(name: string, options: readonly string[]): Html {
    const [chosen] = this.#typed(name);
    const shown = options.map((each) => html`<option${each === chosen && html` selected`}>${each}</option>`);
    return this.#field(name, (mark) => html`<select name="${name}"${mark}>${shown}</select>`);
  }

  textArea(name: string, attributes: Html, value?: string): Html {
    // Browsers drop a line end directly after `<textarea>`. The template adds one there, so that a value that begins
    // with a line end keeps it.
    const element = (mark: Content) =>
      html`<textarea name="${name}" ${attributes}${mark}>
${this.#typed(name)[0] ?? value}</textarea>`;
    return this.#field(name, element, true);
  }

  /**
   * Returns the error of a refused form, unless it stands below the field that is wrong. So call this after the fields
   * are made.
   */
  problem(): Content {
    return this.#refusal && !this.#isMarked && problem(this.#refusal.error);
  }

  #typed(name: string): string[] {
    return [this.#refusal?.fields[name] ?? []].flat();
  }

  /** Returns a field that stands in its label. If it is wrong, it is marked, and the label tells the error too. */
  #field(name: string, element: (mark: Content) => Html, isTextArea = false): Html {
    if (!this.#refusal || !this.#isWrong(this.#refusal, name, isTextArea)) return element(undefined);
    this.#isMarked = true;
    const mark = html` aria-invalid="true" autofocus`;
    return html`${element(mark)}<span class="problem" role="alert" id="refusal">${this.#refusal.error.message}</span>`;
  }

  #isWrong({ error, fields }: Refusal, name: string, isTextArea: boolean): boolean {
    const named = error.members.field;
    if (named === undefined) return false;
    const [wrong = ''] = String(named).split('.');
    // `wrong` is the field that the API refuses. If the form has no such field, `wrong` is a member of the JSON in the
    // text area. Then the text area is marked.
    return wrong === name || (isTextArea && !Object.hasOwn(fields, wrong));
  }
}

/**
 * Returns the page of a refused form with the error. If the form has no place for the error, it is shown at the top of
 * the page, where it stays when parts of the page are refreshed.
 */
export function withRefusal(page: Page, { error }: Refusal): Page {
  const body = html`${page.body}`;
  return {
    ...page,
    title: `Not done: ${page.title}`,
    body: body.text.includes(' id="refusal"') ? body : [problem(error), body],
    status: error.status,
    headers: { ...page.headers, ...withoutLists(error.headers) },
  };
}

function problem({ message }: BusError): Html {
  return html`<p class="problem" role="alert" id="refusal" tabindex="-1" autofocus>${message}</p>`;
}

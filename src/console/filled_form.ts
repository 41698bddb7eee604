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

  input(name: string, value?: string | number): Html {
    return html`name="${name}" value="${this.#typed(name)[0] ?? value}"${this.#mark(name)}`;
  }

  checkbox(name: string, value: string, isChecked = false): Html {
    const isOn = this.#refusal ? this.#typed(name).includes(value) : isChecked;
    return html`type="checkbox" name="${name}" value="${value}"${isOn && html` checked`}`;
  }

  select(name: string, options: readonly string[]): Html {
    const [chosen] = this.#typed(name);
    const shown = options.map((each) => html`<option${each === chosen && html` selected`}>${each}</option>`);
    return html`<select name="${name}"${this.#mark(name)}>${shown}</select>`;
  }

  textArea(name: string, attributes: Html, value?: string): Html {
    // Browsers drop a line end directly after `<textarea>`. The template adds one there, so that a value that begins
    // with a line end keeps it.
    return html`<textarea name="${name}" ${attributes}${this.#mark(name, true)}>
${this.#typed(name)[0] ?? value}</textarea>`;
  }

  /**
   * Returns the error of a refused form. The error gets the focus unless a field was marked as wrong, so call this
   * after the fields are made.
   */
  problem(): Content {
    return this.#refusal && problem(this.#refusal.error, this.#isMarked);
  }

  #typed(name: string): string[] {
    return [this.#refusal?.fields[name] ?? []].flat();
  }

  #mark(name: string, isTextArea = false): Content {
    const named = this.#refusal?.error.members.field;
    if (!this.#refusal || named === undefined) return undefined;
    const [wrong = ''] = String(named).split('.');
    // `wrong` is the field that the API refuses. If the form has no such field, `wrong` is a member of the JSON in the
    // text area. Then the text area is marked.
    const isInside = isTextArea && !Object.hasOwn(this.#refusal.fields, wrong);
    if (wrong !== name && !isInside) return undefined;
    this.#isMarked = true;
    return html` aria-invalid="true" aria-describedby="refusal" autofocus`;
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
    body: body.text.includes(' id="refusal"') ? body : [problem(error, false), body],
    status: error.status,
    headers: { ...page.headers, ...withoutLists(error.headers) },
  };
}

function problem({ message }: BusError, isOfField: boolean): Html {
  return html`<p class="problem" role="alert" id="refusal"${!isOfField && html` tabindex="-1" autofocus`}>${message}</p>`;
}

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ERRORS } from '../errors.ts';
import { type Content, Html, html } from '../html.ts';
import { curlOf, VARIABLES } from './curl.ts';
import { type Field, fieldsOf, typeText } from './fields.ts';
import type { OpenApiDocument, Operation, Parameter, Response } from './openapi.ts';
import { codesIn } from './problems.ts';

/** The CSS of the page. The header Content-Security-Policy allows this CSS by its hash. */
export const STYLE = readFileSync(join(import.meta.dirname, 'docs.css'), 'utf8');

interface Call {
  method: string;
  path: string;
  operation: Operation;
}

/**
 * Makes a page that shows the API to people. The page is made chapter by chapter, so that other requests are served in
 * between.
 */
export async function docsPage(document: OpenApiDocument): Promise<string> {
  const { info, tags, webhooks } = document;
  const calls = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, operation]): Call => ({ method: method.toUpperCase(), path, operation }),
    ),
  );
  const chapters = tags
    .map((tag) => ({ ...tag, calls: calls.filter(({ operation }) => operation.tags[0] === tag.name) }))
    .filter((chapter) => chapter.calls.length > 0);
  const shown: Html[] = [];
  for (const { name, description, calls } of chapters) {
    const sections = calls.map((call) => section(call, document));
    shown.push(html`<h2 id="${anchorOf(name)}">${name}</h2><p>${prose(description)}</p>${sections}`);
    await nextTurn();
  }
  // The CSS is a file of this project, so it needs no escaping. Escaping would change its hash, and browsers would then
  // ignore the CSS.
  const style = new Html(`<style>${STYLE}</style>`);
  return `<!doctype html>${
    html`<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${info.title} API</title>${style}</head>
<body><header><h1>${info.title} API <small>${info.version}</small></h1>${info.description.split('\n\n').map((each) => html`<p>${prose(each)}</p>`)}
<p>For programs: <a href="/openapi.json">openapi.json</a>. To paste the curl lines, say first where the bus is and who you are:</p><pre><code>${VARIABLES}</code></pre></header>
<nav>${chapters.map(contentsOf)}<p><a href="#deliveries">Deliveries</a> · <a href="#errors">Errors</a></p></nav>
<main>${shown}
${deliveries(webhooks, document)}${errors()}</main></body></html>`.text
  }`;
}

function contentsOf({ name, calls }: { name: string; calls: Call[] }): Html {
  return html`<h4><a href="#${anchorOf(name)}">${name}</a></h4><ul>${calls.map(
    ({ method, path, operation: { operationId, 'x-alias-of': same } }) =>
      html`<li><a href="#${operationId}"><code>${method} ${path}</code></a>${same && html` <small>alias of ${same}</small>`}</li>`,
  )}</ul>`;
}

/**
 * Returns the anchor of a chapter. It differs from every anchor of a call, such as `getTopics`, because those have no
 * dash.
 */
function anchorOf(chapter: string): string {
  return `chapter-${chapter.toLowerCase().replaceAll(' ', '-')}`;
}

function section({ method, path, operation }: Call, document: OpenApiDocument): Html {
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation;
  const [body] = Object.values(requestBody?.content ?? {});
  return html`<section><h3 id="${operationId}"><code>${method} ${path}</code></h3>
<p><strong>${summary}.</strong> ${description && prose(description)}</p><p class="who">${who(operation)}</p>
${parametersTable(parameters)}${body && fieldsTable('Body', fieldsOf(body.schema, document))}
<pre><code>${curlOf(method, path, operation)}</code></pre>${answers(responses, document)}${problems(responses)}</section>
`;
}

function who({ 'x-roles': roles }: Operation): string {
  return roles.length === 0 ? 'For anyone, without credentials.' : `For: ${roles.join(', ')}.`;
}

function parametersTable(parameters: readonly Parameter[]): Html | undefined {
  if (parameters.length === 0) return undefined;
  const rows = parameters.map((each) => [
    html`<code>${each.name}</code>`,
    `${each.in}${each.required ? '' : ', optional'}`,
    typeText(each.schema),
    prose(each.description ?? ''),
  ]);
  return table(['Parameter', 'where', 'type', 'meaning'], rows);
}

function fieldsTable(title: string, fields: readonly Field[]): Html | undefined {
  if (fields.length === 0) return undefined;
  const rows = fields.map(({ name, type, required, description }) => [
    html`<code>${name}</code>`,
    `${type}${required ? '' : ', optional'}`,
    prose(description),
  ]);
  return table([title, 'type', 'meaning'], rows);
}

function answers(responses: Record<string, Response>, document: OpenApiDocument): Content {
  return Object.entries(responses)
    .filter(([status]) => Number(status) < 400)
    .map(([status, { description, headers = {}, content = {} }]) => {
      const [[type, body] = []] = Object.entries(content);
      const example = type === 'application/json' ? JSON.stringify(body?.example, undefined, 1) : undefined;
      const rows = Object.entries(headers).map(([name, each]) => [
        html`<code>${name}</code>`,
        prose(each.description ?? ''),
      ]);
      return html`<p>Answers <strong>${status}</strong> ${description}${type && html` (<code>${type}</code>)`}</p>
${rows.length > 0 && table(['Header', 'meaning'], rows)}${body && fieldsTable('Answer', fieldsOf(body.schema, document))}${example && html`<pre><code>${example}</code></pre>`}`;
    });
}

function problems(responses: Record<string, Response>): Html {
  const codes = Object.values(responses).flatMap((each) => (each.$ref ? codesIn(each) : []));
  const links = codes.map(
    (code, index) => html`${index > 0 && ', '}<a href="#error-${code}"><code>${code}</code></a>`,
  );
  return html`<p>Errors: ${links}.</p>`;
}

function deliveries({ delivery }: OpenApiDocument['webhooks'], document: OpenApiDocument): Html {
  const { description = '', parameters, requestBody, responses } = delivery.post;
  const schema = requestBody?.content['application/json']?.schema ?? {};
  const rows = Object.entries(responses).map(([status, each]) => [
    html`<code>${status}</code>`,
    prose(each.description ?? ''),
  ]);
  return html`<h2 id="deliveries">Deliveries</h2><p><code>POST</code> to the callback of a subscriber. ${prose(description)}</p>
${parametersTable(parameters as Parameter[])}${fieldsTable('Body', fieldsOf(schema, document))}${table(['Your answer', 'means'], rows)}`;
}

function errors(): Html {
  const rows = Object.entries(ERRORS).map(([code, { status, title }]) => [
    html`<code id="error-${code}">${code}</code>`,
    status,
    title,
  ]);
  return html`<h2 id="errors">Errors</h2>${table(['code', 'status', 'meaning'], rows)}`;
}

function table(heads: readonly string[], rows: readonly (readonly Content[])[]): Html {
  const head = heads.map((each) => html`<th>${each}</th>`);
  const body = rows.map((row) => html`<tr>${row.map((each) => html`<td>${each}</td>`)}</tr>`);
  return html`<table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>`;
}

function prose(text: string): Content {
  return text.split('`').map((part, index) => (index % 2 === 0 ? part : html`<code>${part}</code>`));
}

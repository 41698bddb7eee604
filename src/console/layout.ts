import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type BusError, ERRORS, StorageLost, StorageUnavailable } from '../errors.ts';
import { type Content, type Html, html } from '../html.ts';
import { BROWSER_HEADERS } from '../http/answers.ts';
import { RELEASE } from '../release.ts';
import type { Caller, Role } from '../routing/caller.ts';
import { ALL, type Answer, type FailedCall, WATCHERS } from '../routing/route.ts';
import { parseUrl } from '../urls.ts';
import { ASSET_URLS } from './assets.ts';

const compressed = promisify(gzip);
/** Pages with fewer characters are not compressed. */
const MIN_COMPRESSED = 1000;

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const PAGE_HEADERS = {
  ...BROWSER_HEADERS,
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': POLICY,
  'Referrer-Policy': 'same-origin',
  Vary: 'Accept-Encoding, HX-Request, Cookie',
};

const HTMX = JSON.stringify({
  includeIndicatorCSS: false,
  history: false,
  morphSkip: '.plot',
  // htmx must not put these answers into the open page: 204 and 304 have no body, and an error answer is a whole page
  // without the part to refresh.
  noSwap: [204, 304, '4xx', '5xx'],
  defaultTimeout: 10_000,
});

interface Entry {
  path: string;
  name: string;
  roles: readonly Role[];
}

const NAVIGATION: readonly Entry[] = [
  { path: '/console', name: 'Overview', roles: ALL },
  { path: '/console/subscribers', name: 'Subscribers', roles: ALL },
  { path: '/console/deliveries', name: 'Deliveries', roles: ALL },
  { path: '/console/dead_letters', name: 'Dead letters', roles: ALL },
  { path: '/console/topics', name: 'Topics', roles: ALL },
  { path: '/console/tail', name: 'Live tail', roles: WATCHERS },
  { path: '/console/triggers', name: 'Triggers', roles: ALL },
  { path: '/console/joins', name: 'Joins', roles: ALL },
  { path: '/console/jobs', name: 'Jobs', roles: WATCHERS },
  { path: '/console/clients', name: 'Clients', roles: WATCHERS },
  { path: '/console/audit', name: 'Audit', roles: WATCHERS },
  { path: '/docs', name: 'API', roles: ALL },
];

export interface Page {
  title: string;
  /** Path of the navigation entry to highlight. */
  current?: string;
  body: Content;
  status?: number;
  headers?: Record<string, string>;
}

/** The person who looks at a page. `caller` is undefined before the login. */
type Visitor = Pick<FailedCall, 'caller' | 'formToken' | 'headers'>;

/** True if htmx requests a page again, to refresh a part of the open page. */
function isRefresh(headers: IncomingHttpHeaders): boolean {
  return headers['hx-request'] !== undefined;
}

/** Returns a page as an answer. A refresh gets only the element `<main>`, and any other request the whole document. */
export async function answerPage(visitor: Visitor, page: Page): Promise<Answer> {
  const { text } = isRefresh(visitor.headers) ? mainOf(page) : whole(visitor, page);
  const headers = { ...PAGE_HEADERS, ...page.headers };
  const status = page.status ?? 200;
  const accepts = String(visitor.headers['accept-encoding'] ?? '');
  if (text.length < MIN_COMPRESSED || !/\bgzip\b/.test(accepts)) return { status, headers, body: text };
  return { status, headers: { ...headers, 'Content-Encoding': 'gzip' }, body: await compressed(text) };
}

/**
 * The title of the page for a refused form. The API's title of the error `bad_body` speaks of a request body, which a
 * person at a form does not know.
 */
const BAD_FORM = 'The form cannot be accepted';

/**
 * Returns a page that shows an error, with a link to the list above the requested page: the error page of
 * `/console/topics/x` links to the topics. If nobody is logged in, returns a redirect to the login page instead.
 */
export function answerError(error: BusError, call: FailedCall): Answer {
  const { caller, formToken, headers } = call;
  if (error.code === 'unauthenticated') {
    const login = `/console/login?to=${encodeURIComponent(pageOf(call))}`;
    if (isRefresh(headers)) return { status: 401, headers: { 'HX-Redirect': login } };
    return { status: 303, headers: { Location: login } };
  }
  const [own] = call.url.split('?');
  const list = entriesFor(caller).find(({ path }) => path !== '/console' && `${own}/`.startsWith(`${path}/`));
  const title = error.code === 'bad_body' ? BAD_FORM : ERRORS[error.code].title;
  const page = {
    title,
    body: html`<h1>${title}</h1><p>${errorText(error, call)}</p>
<p>${list && html`<a href="${list.path}">${list.name}</a> · `}<a href="/console">Overview</a></p>`,
  };
  return {
    status: error.status,
    headers: { ...PAGE_HEADERS, ...withoutLists(error.headers) },
    body: whole({ caller, formToken, headers }, page).text,
  };
}

/**
 * An error page says this if Redis has lost the data of the bus. The text warns against a mere restart, which operators
 * may try first.
 */
const RESTORE =
  'Nothing is accepted until it has the data again: stop the bus, and restore a backup of Redis. Do not just restart ' +
  'a process: without ROUTEMASTER_REQUIRE_DATA it begins a new bus.';

/**
 * Returns the text of an error page, usually the error's message. The message of StorageUnavailable has advice for
 * programs that publish, so the page has another text for a person.
 */
function errorText(error: BusError, { method }: FailedCall): string {
  if (error instanceof StorageLost) return `${error.why}. ${RESTORE}`;
  if (!(error instanceof StorageUnavailable)) return error.message;
  if (method === 'POST')
    return `${error.why}, so it is unknown whether anything was changed. Go back in a moment, and look before you send the form again.`;
  const advice = 'Reload the page in a moment. If it stays so, the log of the bus says why.';
  return `${error.why}, and this page needs it. ${advice}`;
}

/**
 * Returns the path and query of the page that a person looks at. For a form or a refresh, this is the page that the
 * header `Referer` names, not the path of the request.
 */
function pageOf({ method, url, headers }: FailedCall): string {
  if (method !== 'POST' && !isRefresh(headers)) return url;
  const { pathname, search } = parseUrl(headers.referer ?? '') ?? { pathname: '/console', search: '' };
  return pathname + search;
}

export function withoutLists(headers: Record<string, string | string[]>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

function mainOf({ body }: Page): Html {
  return html`<main id="main">${body}</main>`;
}

function whole(visitor: Visitor, page: Page): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="htmx-config" content="${HTMX}">
<title>${page.title} · Routemaster</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${ASSET_URLS['uplot.css']}">
<link rel="stylesheet" href="${ASSET_URLS['console.css']}">
<script defer src="${ASSET_URLS['htmx.js']}"></script>
<script defer src="${ASSET_URLS['uplot.js']}"></script>
<script defer src="${ASSET_URLS['plots.js']}"></script>
<script defer src="${ASSET_URLS['typed.js']}"></script>
<script defer src="${ASSET_URLS['console.js']}"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
${header(visitor, page)}
${mainOf(page)}
${visitor.caller && html`<footer>Routemaster ${RELEASE}</footer>`}
</body>
</html>
`;
}

function entriesFor(caller: Caller | undefined): Entry[] {
  return NAVIGATION.filter(({ roles }) => caller && roles.includes(caller.role));
}

function header({ caller, formToken }: Visitor, { current }: Page): Html {
  const brand = html`<a class="brand" href="/console">Routemaster</a>`;
  if (!caller) return html`<header>${brand}</header>`;
  const entries = entriesFor(caller).map(({ path, name }) =>
    path === current
      ? html`<a href="${path}" aria-current="page">${name}</a>`
      : html`<a href="${path}">${name}</a>`,
  );
  const name = caller.role === 'client' ? caller.name : caller.role;
  return html`<header>${brand}<nav aria-label="Pages">${entries}</nav>
<form method="post" action="/console/logout">${tokenField(formToken)}<span>${name}</span>
<button class="quiet">Log out</button></form></header>`;
}

export function tokenField(formToken: string): Html {
  return commonField('form_token', formToken);
}

/**
 * Returns a hidden field that other forms of the page may have too, so it does not tell the forms apart. `typed.js`
 * fills in a form again after a login, and ignores this field when it looks for the form.
 */
export function commonField(name: string, value: string | number): Html {
  return html`<input type="hidden" data-common="" name="${name}" value="${value}">`;
}

/** Returns a part of a page. An open page fetches this part again from `url` every two seconds, or every `everyMs`. */
export function live(id: string, url: string, content: Content, everyMs?: number): Html {
  return html`<div id="${id}" data-live="${everyMs}" hx-get="${url}" hx-trigger="refresh" hx-select="#${id}" hx-swap="outerMorph">${content}</div>`;
}

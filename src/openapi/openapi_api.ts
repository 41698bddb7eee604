import { hash } from 'node:crypto';
import { z } from 'zod';
import { html } from '../html.ts';
import type { Proxies } from '../routing/proxies.ts';
import { ANYONE, type Route, route } from '../routing/route.ts';
import { BUS_LINE, busLine } from './curl.ts';
import { docsPage, STYLE } from './docs_page.ts';
import { type DocumentOptions, openApiDocument } from './document.ts';

/**
 * Headers of the page `/docs`. The page needs no scripts, no other files and no frames, so the headers forbid them.
 * They allow the inline CSS by its hash.
 */
const PAGE_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': `default-src 'none'; style-src 'sha256-${hash('sha256', STYLE, 'base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
};

/** `/openapi.json` and `/docs`: the description of the API for programs and for people. */
export function openApi(
  routes: readonly Route[],
  { forceSsl, dialect, delivered, proxies }: DocumentOptions & { proxies: Pick<Proxies, 'originOf'> },
): Route[] {
  // The documents are made at the first request for one of them, which most processes never get.
  let made: Promise<Documents> | undefined;
  const documents = () => {
    made ??= makeDocuments(all, { delivered, dialect, forceSsl });
    return made;
  };
  const own = [
    route('GET /openapi.json', ANYONE, {
      isPublic: true,
      answers: { 200: z.looseObject({}) },
      handle: async () =>
        answer((await documents()).json, { 'Content-Type': 'application/json; charset=utf-8' }),
    }),
    route('GET /docs', ANYONE, {
      isPublic: true,
      answers: { 200: z.string() },
      async handle({ request }) {
        const { pageBefore, pageAfter } = await documents();
        const origin = proxies.originOf(request);
        const line = origin === undefined ? BUS_LINE : html`${busLine(origin)}`.text;
        return answer(Buffer.concat([pageBefore, Buffer.from(line), pageAfter]), PAGE_HEADERS);
      },
    }),
  ];
  const all = [...routes, ...own];
  return own;
}

interface Documents {
  json: Buffer;
  /** The page `/docs` before and after the line with the address of the bus. This line depends on the request. */
  pageBefore: Buffer;
  pageAfter: Buffer;
}

async function makeDocuments(routes: readonly Route[], options: DocumentOptions): Promise<Documents> {
  const document = await openApiDocument(routes, options);
  const json = Buffer.from(JSON.stringify(document));
  const [before = '', after = ''] = (await docsPage(document)).split(BUS_LINE);
  return { json, pageBefore: Buffer.from(before), pageAfter: Buffer.from(after) };
}

function answer(body: Buffer, headers: Record<string, string>) {
  return { status: 200, body, headers: { ...headers, 'Content-Length': String(body.length) } } as const;
}

import { hash } from 'node:crypto';
import { z } from 'zod';
import { html } from '../html.ts';
import type { Proxies } from '../routing/proxies.ts';
import { ANYONE, type Route, route } from '../routing/route.ts';
import { BUS_LINE, busLine } from './curl.ts';
import { docsPage, STYLE } from './docs_page.ts';
import { type DocumentOptions, openApiDocument } from './document.ts';

/**
 * Headers of the page `/docs`. They forbid scripts, other files and frames, because the page needs none. They allow the
 * page's own CSS by its hash.
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
  // Both documents are made when one of them is first requested. Most processes never get such a request.
  let made: Promise<{ json: Buffer; page: string }> | undefined;
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
        const { page } = await documents();
        const origin = proxies.originOf(request);
        const line = origin === undefined ? BUS_LINE : html`${busLine(origin)}`.text;
        return answer(Buffer.from(page.replace(BUS_LINE, () => line)), PAGE_HEADERS);
      },
    }),
  ];
  const all = [...routes, ...own];
  return own;
}

async function makeDocuments(routes: readonly Route[], options: DocumentOptions) {
  const document = await openApiDocument(routes, options);
  return { json: Buffer.from(JSON.stringify(document)), page: await docsPage(document) };
}

function answer(body: Buffer, headers: Record<string, string>) {
  return { status: 200, body, headers } as const;
}

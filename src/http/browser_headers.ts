import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Tell a browser that an answer is data: it runs nothing, is shown in no frame, and no cache keeps it. These are helmet's headers
 * but for those that concern pages.
 */
export const BROWSER_HEADERS = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
};

/** Browsers are to come by https for a year. */
const HTTPS_ONLY = 'max-age=31536000';

const HEADERS = new Map(Object.entries(BROWSER_HEADERS));
const HTTPS_HEADERS = new Map(HEADERS).set('Strict-Transport-Security', HTTPS_ONLY);

/** Sets them on answers that a browser shows. A publish has nothing to show, and does not pay for them. */
export function setBrowserHeaders(
  { method }: IncomingMessage,
  response: ServerResponse,
  forceSsl: boolean,
): void {
  if (method === 'GET' || method === 'HEAD') response.setHeaders(forceSsl ? HTTPS_HEADERS : HEADERS);
}

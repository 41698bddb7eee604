import type { RequestHandler } from 'express';

/**
 * For whoever opens an answer in a browser: it is data, runs nothing, is shown in no frame, and no cache keeps it. As helmet
 * has them, but for those that concern pages.
 */
export const BROWSER_HEADERS = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
};

/** For a year, browsers are to come by https. */
const HTTPS_ONLY = 'max-age=31536000';

/** Sets them on what browsers show. A publish has nothing to show, and does not pay. */
export function browserHeaders({ forceSsl }: { forceSsl: boolean }): RequestHandler {
  const headers = new Map(Object.entries(BROWSER_HEADERS));
  if (forceSsl) headers.set('Strict-Transport-Security', HTTPS_ONLY);
  return (request, response, next) => {
    if (request.method === 'GET' || request.method === 'HEAD') response.setHeaders(headers);
    next();
  };
}

import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import { BusError, StorageUnavailable } from '../errors.ts';
import type { Proxies } from './proxies.ts';

/** Headers that a request may have once; of a doubled one, proxies and we could read different halves. */
const SINGLE = new Set([
  'authorization',
  'content-length',
  'content-type',
  'content-encoding',
  'host',
  'idempotency-key',
]);

/** Of `Sec-Fetch-Site`, which browsers send: asked for by a person, or by a page of ours. */
const OWN_SITE: ReadonlySet<string> = new Set(['none', 'same-origin']);

/** No browser and no proxy sends as many. */
const MOST_HEADERS = 100;

/**
 * Throws bad_header if headers are doubled, or `Host` is missing; headers_too_large if there are too many;
 * unsupported_transfer_coding if the body is encoded on its way; forbidden if another site has a browser send it.
 */
export function checkHeaders({ headers, rawHeaders, httpVersion }: IncomingMessage): void {
  if (rawHeaders.length > 2 * MOST_HEADERS)
    throw new BusError('headers_too_large', `there are more than ${MOST_HEADERS} headers`);
  // As many names as there are headers: none is doubled.
  if (Object.keys(headers).length * 2 !== rawHeaders.length) refuseDoubled(rawHeaders);
  if (headers.host === undefined && httpVersion === '1.1') {
    throw new BusError('bad_header', 'the Host header is missing');
  }
  const coding = headers['transfer-encoding'];
  if (coding !== undefined) checkTransferCoding(coding, httpVersion);
  const site = headers['sec-fetch-site'];
  if (site !== undefined && !OWN_SITE.has(site as string)) refuseOtherSite();
}

/** Node's parser undoes the chunks, and passes over what was done before. Where the body ends is uncertain then (RFC 9112, 6.1). */
function checkTransferCoding(coding: string, httpVersion: string): void {
  const headers = { Connection: 'close' };
  if (httpVersion === '1.0')
    throw new BusError('bad_header', 'there is no Transfer-Encoding in HTTP/1.0', { headers });
  if (coding.toLowerCase() === 'chunked') return;
  const detail = 'of Transfer-Encoding only chunked, and nothing before it, is understood';
  throw new BusError('unsupported_transfer_coding', detail, { headers });
}

/** A browser sends the credentials that it was once given with whatever a page of any site has it send, forms included. */
function refuseOtherSite(): never {
  throw new BusError('forbidden', 'a page of another site made the browser send this; call from a service');
}

function refuseDoubled(rawHeaders: string[]): void {
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase();
    if (!SINGLE.has(name)) continue;
    if (seen.has(name)) throw new BusError('bad_header', `there are two ${name} headers; send one`);
    seen.add(name);
  }
}

/** Refuses requests whose headers are doubled, or that lack `Host`. */
export const wellFormed: RequestHandler = (request, _response, next) => {
  checkHeaders(request);
  next();
};

/** Sends plain http to https, method and body kept. The port is left out: it is one that speaks http. */
export function forceSsl(proxies: Proxies): RequestHandler {
  return (request, response, next) => {
    if (proxies.cameByHttps(request)) return next();
    const host = request.headers.host?.replace(/:\d*$/, '');
    if (!host) throw new BusError('bad_header', 'the Host header is missing, and http is not served here');
    response.redirect(308, `https://${host}${request.originalUrl}`);
  };
}

/** Refuses work while the storage is being prepared. */
export function untilReady(ready: () => boolean): RequestHandler {
  return (_request, _response, next) => {
    if (ready()) return next();
    throw new StorageUnavailable('the storage is not prepared yet');
  };
}

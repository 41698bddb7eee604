import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { BusError } from '../errors.ts';
import { parseUrl } from '../urls.ts';

/** Headers that may occur only once. If one came twice, a proxy could use the first value and the bus the second. */
const SINGLE = new Set([
  'authorization',
  'content-length',
  'content-type',
  'content-encoding',
  'host',
  'idempotency-key',
]);

/**
 * Values of `Sec-Fetch-Site` that show that no other site made the request: `none` if a person typed the address,
 * `same-origin` for a page of the bus.
 */
const OWN_SITE: ReadonlySet<string> = new Set(['none', 'same-origin']);

/** Maximum number of headers in a request. Browsers and proxies send far fewer. */
const MAX_HEADERS = 100;

/**
 * Checks the headers of a request. Throws a BusError:
 * - if `Host` is missing in HTTP/1.1, a header of SINGLE comes twice, or there are too many headers;
 * - if there is another transfer coding than chunked;
 * - if a page of another site made a browser send the request. With `isLinkable` (pages of the console, public routes),
 *   a person may follow a link from another site.
 */
export function checkHeaders(request: IncomingMessage, isLinkable = false): void {
  const { headers, rawHeaders, httpVersion } = request;
  if (rawHeaders.length > 2 * MAX_HEADERS)
    throw new BusError('headers_too_large', `there are more than ${MAX_HEADERS} headers`);
  // `rawHeaders` has a name and a value for each header, and `headers` one entry for each different name. If the
  // numbers differ, a header occurs twice.
  if (Object.keys(headers).length * 2 !== rawHeaders.length) refuseDoubled(rawHeaders);
  if (headers.host === undefined && httpVersion === '1.1') {
    throw new BusError('bad_header', 'the Host header is missing');
  }
  const coding = headers['transfer-encoding'];
  if (coding !== undefined) checkTransferCoding(coding, httpVersion);
  if (isLinkable && isFollowedLink(request)) return;
  const site = headers['sec-fetch-site'];
  // If a page of another site makes a browser send a request, the browser adds the credentials of its user. If the bus
  // accepted the request, that page could act as the user.
  if (site === undefined ? isOtherOrigin(headers) : !OWN_SITE.has(site as string))
    throw new BusError('forbidden', 'a page of another site made the browser send this; call from a service');
}

/**
 * True if a person has followed a link. Even a link on another site is permitted: the browser does not send the session
 * cookie from there (`SameSite=Strict`), so the console only shows its login.
 */
function isFollowedLink({ method, headers }: IncomingMessage): boolean {
  return (method === 'GET' || method === 'HEAD') && headers['sec-fetch-mode'] === 'navigate';
}

/**
 * For browsers that send no `Sec-Fetch-Site`: true if a page of another site made the request. Such browsers send the
 * origin of the page with every request that changes something.
 */
function isOtherOrigin(headers: IncomingHttpHeaders): boolean {
  return headers.origin !== undefined && !isOwnOrigin(headers);
}

function isOwnOrigin({ origin = '', host }: IncomingHttpHeaders): boolean {
  const from = parseUrl(origin);
  // A router may add the default port to `Host`, but browsers leave it out of `Origin`. `parseUrl` removes it, so that
  // equal hosts compare as equal.
  return Boolean(from?.host) && from?.host === parseUrl(`${from?.protocol}//${host}`)?.host;
}

/**
 * True if the headers prove that a page of the bus made the request. If the page came by plain http, browsers send no
 * `Sec-Fetch-Site` (except to localhost), and `Origin` is the proof.
 */
export function isFromOwnPage(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'];
  return site === undefined ? isOwnOrigin(headers) : site === 'same-origin';
}

/**
 * Refuses transfer codings other than chunked. Node's parser ignores other codings, so it could not tell where the body
 * ends (RFC 9112, 6.1).
 */
function checkTransferCoding(coding: string, httpVersion: string): void {
  const headers = { Connection: 'close' };
  if (httpVersion === '1.0')
    throw new BusError('bad_header', 'there is no Transfer-Encoding in HTTP/1.0', { headers });
  if (coding.toLowerCase() === 'chunked') return;
  const detail = 'of Transfer-Encoding only chunked, and nothing before it, is understood';
  throw new BusError('unsupported_transfer_coding', detail, { headers });
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

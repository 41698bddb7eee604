import type { IncomingMessage } from 'node:http';
import { BusError } from '../errors.ts';

/** Headers that a request may have once. Where one is doubled, a proxy could read one half and we the other. */
const SINGLE = new Set([
  'authorization',
  'content-length',
  'content-type',
  'content-encoding',
  'host',
  'idempotency-key',
]);

/** The values of `Sec-Fetch-Site`, which browsers send, for what a person typed, or a page of ours asks for. */
const OWN_SITE: ReadonlySet<string> = new Set(['none', 'same-origin']);

/** No browser and no proxy sends as many. */
const MAX_HEADERS = 100;

/**
 * Throws bad_header if headers are doubled, or `Host` is missing; headers_too_large if there are too many;
 * unsupported_transfer_coding if the body is encoded on its way; forbidden if another site has a browser send it.
 */
export function checkHeaders({ headers, rawHeaders, httpVersion }: IncomingMessage): void {
  if (rawHeaders.length > 2 * MAX_HEADERS)
    throw new BusError('headers_too_large', `there are more than ${MAX_HEADERS} headers`);
  // There are as many names as headers, so none is doubled.
  if (Object.keys(headers).length * 2 !== rawHeaders.length) refuseDoubled(rawHeaders);
  if (headers.host === undefined && httpVersion === '1.1') {
    throw new BusError('bad_header', 'the Host header is missing');
  }
  const coding = headers['transfer-encoding'];
  if (coding !== undefined) checkTransferCoding(coding, httpVersion);
  const site = headers['sec-fetch-site'];
  if (site !== undefined && !OWN_SITE.has(site as string)) refuseOtherSite();
}

/** Node's parser undoes the chunks and ignores codings before them; it is uncertain then where the body ends (RFC 9112, 6.1). */
function checkTransferCoding(coding: string, httpVersion: string): void {
  const headers = { Connection: 'close' };
  if (httpVersion === '1.0')
    throw new BusError('bad_header', 'there is no Transfer-Encoding in HTTP/1.0', { headers });
  if (coding.toLowerCase() === 'chunked') return;
  const detail = 'of Transfer-Encoding only chunked, and nothing before it, is understood';
  throw new BusError('unsupported_transfer_coding', detail, { headers });
}

/** Once a browser has credentials, it sends them with whatever a page of any site has it send, forms included. */
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

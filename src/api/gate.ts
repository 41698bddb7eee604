import type { RequestHandler } from 'express';
import { BusError, StorageUnavailable } from '../errors.ts';

/** Headers that a request may have once; of a doubled one, proxies and we could read different halves. */
const SINGLE = new Set(['authorization', 'content-length', 'content-type', 'content-encoding', 'host']);

/** Refuses requests whose headers are doubled, or that lack `Host`. */
export const wellFormed: RequestHandler = (request, _response, next) => {
  const { rawHeaders } = request;
  let seen: string[] | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase();
    if (!SINGLE.has(name)) continue;
    if (seen?.includes(name)) throw new BusError('bad_header', `there are two ${name} headers; send one`);
    if (seen) seen.push(name);
    else seen = [name];
  }
  if (request.headers.host === undefined && request.httpVersion === '1.1') {
    throw new BusError('bad_header', 'the Host header is missing');
  }
  next();
};

/**
 * Sends plain http to https, method and body kept. TLS ends at a router, which says so in `X-Forwarded-Proto`. The port is
 * left out: it is one that speaks http.
 */
export const forceSsl: RequestHandler = (request, response, next) => {
  const [proto] = String(request.headers['x-forwarded-proto'] ?? '').split(',');
  if (proto?.trim() === 'https') return next();
  const host = request.headers.host?.replace(/:\d*$/, '');
  if (!host) throw new BusError('bad_header', 'the Host header is missing, and http is not served here');
  response.redirect(308, `https://${host}${request.originalUrl}`);
};

/** Refuses work while the storage is being prepared. */
export function untilReady(ready: () => boolean): RequestHandler {
  return (_request, _response, next) => {
    if (ready()) return next();
    throw new StorageUnavailable('the storage is not prepared yet');
  };
}

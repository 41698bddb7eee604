import type { IncomingMessage } from 'node:http';
import { BusError } from '../errors.ts';
import type { Dialect } from '../routing/dialect.ts';
import type { Answer } from '../routing/route.ts';

/**
 * Returns a redirect to the same host and path by https, without the port. The status is `reads` for GET and HEAD, and
 * `others` for other methods. Throws bad_header if the request has no Host header.
 */
export function redirectToHttps(
  { headers, method, url }: IncomingMessage,
  { reads, others }: Dialect['redirected'],
): Answer {
  const host = headers.host?.replace(/:\d*$/, '');
  if (!host) throw new BusError('bad_header', 'the Host header is missing, and http is not served here');
  const status = method === 'GET' || method === 'HEAD' ? reads : others;
  return { status, headers: { Location: `https://${host}${pathOf(url ?? '')}` } };
}

/** Returns the path and query of a request's target, which may be absolute (`http://host/path`). */
function pathOf(target: string): string {
  const path = target.replace(/^https?:\/\/[^/?]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}

import type { IncomingMessage } from 'node:http';
import type { Dialect } from '../dialect.ts';
import { BusError } from '../errors.ts';
import type { Answer } from '../route.ts';

/**
 * Answers with a redirect to https on the same host. The port of the request is dropped, because it is the one for
 * http. With 307 and 308, clients keep the method and the body.
 */
export function redirectToHttps(
  { headers, method, url }: IncomingMessage,
  { reads, others }: Dialect['redirected'],
): Answer {
  const host = headers.host?.replace(/:\d*$/, '');
  if (!host) throw new BusError('bad_header', 'the Host header is missing, and http is not served here');
  const status = method === 'GET' || method === 'HEAD' ? reads : others;
  return { status, headers: { Location: `https://${host}${pathOf(url ?? '')}`, 'Content-Length': '0' } };
}

/** Returns the path and query of a request's target. A target in absolute form begins with a host. */
function pathOf(target: string): string {
  const path = target.replace(/^https?:\/\/[^/?]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}

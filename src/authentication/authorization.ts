import type { IncomingMessage } from 'node:http';

/** The scheme that the request names, in lower case; empty if there is no Authorization header. */
export function schemeOf(req: IncomingMessage): string {
  const header = req.headers.authorization ?? '';
  const space = header.indexOf(' ');
  return (space < 0 ? header : header.slice(0, space)).toLowerCase();
}

/** The rest of the header after the scheme. */
export function credentialsOf(req: IncomingMessage): string {
  const header = req.headers.authorization ?? '';
  const space = header.indexOf(' ');
  return space < 0 ? '' : header.slice(space + 1).trim();
}

import type { IncomingMessage } from 'node:http';

/** The scheme that the request names, in lower case, as schemes are compared so; empty if there is no Authorization. */
export function schemeOf(req: IncomingMessage): string {
  const header = req.headers.authorization ?? '';
  const space = header.indexOf(' ');
  return (space < 0 ? header : header.slice(0, space)).toLowerCase();
}

/** What follows the scheme, perhaps nothing. */
export function credentialsOf(req: IncomingMessage): string {
  const header = req.headers.authorization ?? '';
  const space = header.indexOf(' ');
  return space < 0 ? '' : header.slice(space + 1).trim();
}

import type { IncomingMessage } from 'node:http';

/**
 * True if the `uri` of a Digest names the target of the request. If one of the two is in absolute form, their
 * paths and queries are compared, because a proxy may have changed the request line (RFC 7616, section
 * 3.4.6).
 */
export function namesTarget(uri: string, req: IncomingMessage): boolean {
  const target = req.url ?? '';
  if (uri === target) return true;
  const named = originForm(uri, req.headers.host);
  return named !== undefined && named === originForm(target, req.headers.host);
}

/** Returns the path and query of a target; undefined if the target is on another host. */
function originForm(target: string, host: string | undefined): string | undefined {
  const [, scheme, authority, rest = ''] = /^(https?):\/\/([^/?]+)(.*)$/i.exec(target) ?? [];
  if (scheme === undefined || authority === undefined) return target;
  const ownPort = scheme.toLowerCase() === 'https' ? /:443$/ : /:80$/;
  if (authority.toLowerCase().replace(ownPort, '') !== host?.toLowerCase().replace(ownPort, ''))
    return undefined;
  return rest.startsWith('/') ? rest : `/${rest}`;
}

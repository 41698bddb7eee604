import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { BusError } from '../errors.ts';
import { readParameters } from './auth_params.ts';
import { type DigestAlgorithm, HASHES } from './digests.ts';

export interface DigestAnswer {
  username: string;
  realm: string;
  nonce: string;
  uri: string;
  /** The hash algorithm in upper case: MD5 if the client named none (RFC 7616, section 3.4). */
  algorithm: string;
  nc: string;
  cnonce: string;
  /** In lower-case hex. */
  response: string;
}

/** Reads a client's answer to a Digest challenge. Throws bad_header, which names the parameter that is wrong. */
export function readAnswer(text: string): DigestAnswer {
  const parameters = readParameters(text);
  const take = (name: string, form: RegExp, expected: string): string => {
    const value = parameters.get(name);
    if (value !== undefined && form.test(value)) return value;
    throw new BusError('bad_header', `the Digest parameter ${name} must be ${expected}`);
  };
  take('qop', /^auth$/, 'auth');
  return {
    username: take('username', /^/, 'there'),
    realm: take('realm', /^/, 'there'),
    nonce: take('nonce', /./, 'the nonce of the challenge'),
    uri: take('uri', /./, "the request's target"),
    algorithm: (parameters.get('algorithm') ?? 'MD5').toUpperCase(),
    // `nc` may also be 0: by RFC 7616 it begins at 1, but Ruby's net-http-digest_auth begins at 0.
    nc: take('nc', /^[0-9a-f]{8}$/i, 'eight hexadecimal digits'),
    cnonce: take('cnonce', /./, 'there'),
    response: take('response', /^[0-9a-f]{32,64}$/i, 'a digest in hexadecimal digits').toLowerCase(),
  };
}

/** Returns the correct `response` of a Digest answer with qop=auth, in hex (RFC 7616, section 3.4.1). */
export function expectedResponse(
  algorithm: DigestAlgorithm,
  ha1: string,
  method: string,
  answer: Pick<DigestAnswer, 'nonce' | 'nc' | 'cnonce' | 'uri'>,
): string {
  // Node decodes headers as Latin-1, so encoding as Latin-1 restores the bytes that the client hashed.
  const digest = (text: string) => hash(HASHES[algorithm], Buffer.from(text, 'latin1'));
  const ha2 = digest(`${method}:${answer.uri}`);
  return digest(`${ha1}:${answer.nonce}:${answer.nc}:${answer.cnonce}:auth:${ha2}`);
}

/**
 * True if the `uri` in a Digest answer is the target of the request. One of the two may be an absolute URL on the host
 * of the request, and the other a path, because a proxy may have changed the request line (RFC 7616, section 3.4.6).
 */
export function namesTarget(uri: string, req: IncomingMessage): boolean {
  const target = req.url ?? '';
  if (uri === target) return true;
  const named = originForm(uri, req.headers.host);
  return named !== undefined && named === originForm(target, req.headers.host);
}

/** Returns the path and query of a target; undefined if it is on another host. */
function originForm(target: string, host: string | undefined): string | undefined {
  const [, scheme, authority, rest = ''] = /^(https?):\/\/([^/?]+)(.*)$/i.exec(target) ?? [];
  if (scheme === undefined || authority === undefined) return target;
  const ownPort = scheme.toLowerCase() === 'https' ? /:443$/ : /:80$/;
  if (authority.toLowerCase().replace(ownPort, '') !== host?.toLowerCase().replace(ownPort, ''))
    return undefined;
  return rest.startsWith('/') ? rest : `/${rest}`;
}

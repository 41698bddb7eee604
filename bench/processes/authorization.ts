import { hash } from 'node:crypto';

export interface LoadCredentials {
  scheme: 'basic' | 'digest';
  token: string;
  secret: string;
}

interface Authorizer {
  /** Gives the value of the next request's Authorization header. */
  next: () => string;
  /** Takes the new challenge and returns true if this 401 has `stale=true`. Otherwise returns false. */
  renew: (answer: string) => boolean;
}

interface Challenge {
  realm: string;
  nonce: string;
}

/** Makes the authorizer of one connection. With Digest it asks for a challenge first, as clients do. */
export async function authorizer(
  credentials: LoadCredentials,
  port: number,
  path: string,
): Promise<Authorizer> {
  const { scheme, token, secret } = credentials;
  if (scheme === 'digest') return digestAuthorizer(await challenge(port, path), credentials, path);
  const basic = `Basic ${Buffer.from(`${token}:${secret}`).toString('base64')}`;
  return { next: () => basic, renew: () => false };
}

function digestAuthorizer(first: Challenge, credentials: LoadCredentials, path: string): Authorizer {
  let answers = digest(first, credentials, path);
  return {
    next: () => answers(),
    renew: (answer) => {
      const isStale = /stale=true/i.test(answer);
      if (isStale) answers = digest(challengeIn(answer), credentials, path);
      return isStale;
    },
  };
}

/** RFC 7616 with SHA-256 and qop=auth: each request has its own digest and the next nonce use. */
function digest({ realm, nonce }: Challenge, { token, secret }: LoadCredentials, path: string): () => string {
  const ha1 = hash('sha256', `${token}:${realm}:${secret}`);
  const ha2 = hash('sha256', `POST:${path}`);
  const cnonce = hash('sha256', nonce).slice(0, 16);
  const fixed = `Digest username="${token}", realm="${realm}", nonce="${nonce}", uri="${path}", algorithm=SHA-256, qop=auth, cnonce="${cnonce}"`;
  let count = 0;
  return () => {
    const nc = (++count).toString(16).padStart(8, '0');
    return `${fixed}, nc=${nc}, response="${hash('sha256', `${ha1}:${nonce}:${nc}:${cnonce}:auth:${ha2}`)}"`;
  };
}

async function challenge(port: number, path: string): Promise<Challenge> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST' });
  await answer.arrayBuffer();
  return challengeIn(answer.headers.get('www-authenticate') ?? '');
}

function challengeIn(text: string): Challenge {
  const [, realm, nonce] = /Digest realm="([^"]*)".*?nonce="([^"]*)".*?algorithm=SHA-256/.exec(text) ?? [];
  if (realm === undefined || nonce === undefined) throw new Error(`no Digest challenge in: ${text}`);
  return { realm, nonce };
}

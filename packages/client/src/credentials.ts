import { createHash, randomBytes } from 'node:crypto';

export interface Credentials {
  /**
   * Returns the value of the Authorization header. Returns undefined for Digest until the bus has sent a challenge.
   */
  authorization(method: string, target: string): string | undefined;
  /**
   * Keeps the challenge of a 401 answer for the next requests. `refused` is the Authorization header of the request
   * that got this answer. Returns true if the request should be sent again.
   */
  renew(challenge: string | null, refused: string | undefined): boolean;
}

export function basic(token: string, secret: string): Credentials {
  const header = `Basic ${Buffer.from(`${token}:${secret}`).toString('base64')}`;
  return { authorization: () => header, renew: () => false };
}

interface Challenge {
  realm: string;
  nonce: string;
  /** The hash HA1 of RFC 7616, made of user, realm and secret. */
  identity: string;
}

/**
 * Digest authentication (RFC 7616) with SHA-256 and qop=auth. Each request with a nonce has a higher `nc` than the one
 * before, because the bus accepts each `nc` of a nonce only once.
 */
export class Digest implements Credentials {
  readonly #token: string;
  readonly #secret: string;
  #challenge: Challenge | undefined;
  #count = 0;

  constructor(token: string, secret: string) {
    this.#token = token;
    this.#secret = secret;
  }

  authorization(method: string, target: string): string | undefined {
    const challenge = this.#challenge;
    if (!challenge) return undefined;
    const { realm, nonce, identity } = challenge;
    const count = (++this.#count).toString(16).padStart(8, '0');
    const cnonce = randomBytes(12).toString('base64url');
    const response = sha256(`${identity}:${nonce}:${count}:${cnonce}:auth:${sha256(`${method}:${target}`)}`);
    return (
      `Digest username="${this.#token}", realm="${realm}", nonce="${nonce}", uri="${target}", algorithm=SHA-256, ` +
      `qop=auth, nc=${count}, cnonce="${cnonce}", response="${response}"`
    );
  }

  /**
   * The bus may refuse several requests with the same old nonce at about the same time. The first refusal brings the
   * nonce that is used from now on. The new nonces of the other refusals are ignored.
   */
  renew(header: string | null, refused: string | undefined): boolean {
    const latest = this.#challenge;
    if (latest && !refused?.includes(`nonce="${latest.nonce}"`)) return true;
    const offered = sha256Challenge(header ?? '');
    if (!offered) return false;
    const { realm, nonce } = offered;
    this.#challenge = { realm, nonce, identity: sha256(`${this.#token}:${realm}:${this.#secret}`) };
    this.#count = 0;
    return true;
  }
}

function sha256Challenge(header: string): { realm: string; nonce: string } | undefined {
  for (const text of header.split(/(?=\bDigest )/)) {
    const value = (name: string) => new RegExp(`\\b${name}="?([^",]*)"?`, 'i').exec(text)?.[1];
    const [realm, nonce] = [value('realm'), value('nonce')];
    if (!text.startsWith('Digest ') || value('algorithm') !== 'SHA-256') continue;
    if (realm !== undefined && nonce !== undefined) return { realm, nonce };
  }
  return undefined;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

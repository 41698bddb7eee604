import { hash } from 'node:crypto';

/**
 * The realm of Basic and Digest. Every stored digest of a secret contains it, so changing it would void all secrets.
 */
export const REALM = 'Routemaster';

export type DigestAlgorithm = 'SHA-256' | 'MD5';

export const HASHES = { 'SHA-256': 'sha256', MD5: 'md5' } as const;

/**
 * Returns H(username ":" realm ":" password) of RFC 7616 in hex. The bus stores only this digest of a secret. The
 * digest must be kept secret too, because it is enough to log in by Digest.
 */
export function ha1(algorithm: DigestAlgorithm, user: string, secret: string): string {
  return hash(HASHES[algorithm], `${user}:${REALM}:${secret}`);
}

export interface Digests {
  sha256: string;
  md5: string;
}

/**
 * Returns the stored digests of a secret. Returns null if both are missing: the client then has no secret, and its
 * token alone is accepted. If only one is missing, it becomes an empty text, which no digest equals.
 */
export function digestsIn(sha256: string | null, md5: string | null): Digests | null {
  return sha256 === null && md5 === null ? null : { sha256: sha256 ?? '', md5: md5 ?? '' };
}

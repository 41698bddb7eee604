import { hash } from 'node:crypto';

/**
 * The realm of Basic and Digest. Each stored HA1 (the digest of a secret) contains it, so a change would make all
 * secrets useless.
 */
export const REALM = 'Routemaster';

export type DigestAlgorithm = 'SHA-256' | 'MD5';

export const HASHES = { 'SHA-256': 'sha256', MD5: 'md5' } as const;

/**
 * Returns H(username ":" realm ":" password) of RFC 7616 in hex. The bus stores only this hash of a secret. Whoever
 * knows the hash can log in by Digest authentication, so it must be kept as secret as the secret itself.
 */
export function ha1(algorithm: DigestAlgorithm, user: string, secret: string): string {
  return hash(HASHES[algorithm], `${user}:${REALM}:${secret}`);
}

export interface Digests {
  sha256: string;
  md5: string;
}

/**
 * Returns the stored digests of a secret, or null if both are missing. A client with only one of them still counts as
 * a client with a secret, so that its token alone never authenticates.
 */
export function digestsIn(sha256: string | null, md5: string | null): Digests | null {
  return sha256 === null && md5 === null ? null : { sha256: sha256 ?? '', md5: md5 ?? '' };
}

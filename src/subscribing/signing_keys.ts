import { createPrivateKey, createPublicKey, createSecretKey, type KeyObject, randomBytes } from 'node:crypto';

// These prefixes of secrets, private keys and public keys follow Standard Webhooks 1.0
// (https://www.standardwebhooks.com).

const SYMMETRIC = 'whsec_';
const PRIVATE = 'whsk_';
const PUBLIC = 'whpk_';

const MIN_SECRET_BYTES = 24;
const MAX_SECRET_BYTES = 64;
const NEW_SECRET_BYTES = 32;
const ED25519_BYTES = 32;

/** The bytes that PKCS #8 puts before an ed25519 private key (RFC 8410). */
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex');

export function newSecret(): string {
  return SYMMETRIC + randomBytes(NEW_SECRET_BYTES).toString('base64');
}

/** Makes a key pair. The subscriber gets only the public key. */
export function newKeyPair(): { privateKey: string; publicKey: string } {
  const seed = randomBytes(ED25519_BYTES);
  const der = createPublicKey(ed25519(seed)).export({ format: 'der', type: 'spki' });
  return {
    privateKey: PRIVATE + seed.toString('base64'),
    publicKey: PUBLIC + der.subarray(-ED25519_BYTES).toString('base64'),
  };
}

/** Returns true if a subscriber's own secret is valid: `whsec_` and 24 to 64 bytes in Base64. */
export function isSecret(text: string): boolean {
  const bytes = text.startsWith(SYMMETRIC) ? decoded(text, SYMMETRIC) : undefined;
  return bytes !== undefined && bytes.length >= MIN_SECRET_BYTES && bytes.length <= MAX_SECRET_BYTES;
}

/** Imports a secret, or the private key of a pair. Throws RangeError if the text is neither. */
export function importKey(text: string): KeyObject {
  if (isSecret(text)) return createSecretKey(Buffer.from(text.slice(SYMMETRIC.length), 'base64'));
  const seed = text.startsWith(PRIVATE) ? decoded(text, PRIVATE) : undefined;
  // The error does not quote the text, which may be most of a secret.
  if (seed?.length !== ED25519_BYTES) throw new RangeError('the signing secret is unreadable');
  return ed25519(seed);
}

function ed25519(seed: Buffer): KeyObject {
  return createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, seed]), format: 'der', type: 'pkcs8' });
}

/** Decodes the standard Base64 that follows the prefix. Returns undefined if the text is not standard Base64. */
function decoded(text: string, prefix: string): Buffer | undefined {
  const base64 = text.slice(prefix.length);
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 ? bytes : undefined;
}

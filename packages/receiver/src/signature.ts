import {
  createHash,
  createHmac,
  createPublicKey,
  type KeyObject,
  timingSafeEqual,
  verify,
} from 'node:crypto';

// Deliveries are signed as Standard Webhooks 1.0 prescribes: https://www.standardwebhooks.com

const SECRET = 'whsec_';
const PUBLIC_KEY = 'whpk_';
/** Matches the Base64 of 24 bytes or more: the bus has no shorter secrets. */
const BASE64 = /^[A-Za-z\d+/]{32,}={0,2}$/;
const ED25519_BYTES = 32;
/** The bytes that come before an ed25519 public key in the format SubjectPublicKeyInfo (RFC 8410). */
const SPKI_HEAD = Buffer.from('302a300506032b6570032100', 'hex');
/**
 * Maximum number of signatures of a delivery that are checked. The bus sends four at most. Without a limit, a stranger
 * could keep a receiver busy: each check of an ed25519 signature hashes the whole body, and 16 checks of a body of 33
 * MiB took one to two seconds.
 */
const MAX_SIGNATURES = 4;

const UNSIGNED =
  'the delivery is not signed (a header webhook-… is missing): subscribe with a signing_secret';

interface SignedHeaders {
  id: string | undefined;
  timestamp: string | undefined;
  signature: string | undefined;
}

/** Checks one signature: its bytes, decoded from Base64, without the version (`v1,` or `v1a,`). */
type Check = (signature: Buffer) => boolean;

interface Verifier {
  version: string;
  checkOf: (content: Buffer) => Check;
}

/**
 * Returns a function that checks whether a delivery is signed with any of `secrets`. The function returns why the
 * delivery is refused, or undefined if it is genuine. A secret is symmetric (Base64, with or without `whsec_` before
 * it) or an ed25519 public key (`whpk_…`). Throws TypeError if a secret is malformed.
 */
export function signatureCheck(secrets: readonly string[], toleranceSeconds: number) {
  const verifiers = secrets.map(verifierOf);
  return (
    { id, timestamp, signature }: SignedHeaders,
    body: Uint8Array,
    nowMs: number,
  ): string | undefined => {
    if (!id || !timestamp || !signature) return UNSIGNED;
    const ageSeconds = nowMs / 1000 - Number(timestamp);
    if (!/^\d+$/.test(timestamp) || !(Math.abs(ageSeconds) <= toleranceSeconds)) {
      return `webhook-timestamp is not within ${toleranceSeconds} s of now; if it should be, set the clock of this machine`;
    }
    const content = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
    const given = signature.split(' ').slice(0, MAX_SIGNATURES);
    const isGenuine = verifiers.some(({ version, checkOf }) => {
      const signatures = given.flatMap((each) => signatureIn(each, version));
      return signatures.length > 0 && signatures.some(checkOf(content));
    });
    return isGenuine ? undefined : 'no signature of the delivery fits the signing secret';
  };
}

function signatureIn(text: string, version: string): Buffer[] {
  const [itsVersion, base64] = text.split(',', 2);
  return itsVersion === version && base64 !== undefined ? [Buffer.from(base64, 'base64')] : [];
}

function verifierOf(text: string): Verifier {
  const secret = text.trim(); // a file ends with a newline
  if (secret.startsWith(PUBLIC_KEY)) {
    const bytes = Buffer.from(secret.slice(PUBLIC_KEY.length), 'base64');
    if (bytes.length !== ED25519_BYTES)
      throw new TypeError(`a public key is ${PUBLIC_KEY} and Base64 of 32 bytes`);
    const key = createPublicKey({ key: Buffer.concat([SPKI_HEAD, bytes]), format: 'der', type: 'spki' });
    return { version: 'v1a', checkOf: byPublicKey(key) };
  }
  const base64 = secret.startsWith(SECRET) ? secret.slice(SECRET.length) : secret;
  if (!BASE64.test(base64))
    throw new TypeError(`a signing secret is ${SECRET} and the Base64 of 24 bytes or more`);
  return { version: 'v1', checkOf: bySecret(Buffer.from(base64, 'base64')) };
}

function byPublicKey(key: KeyObject): Verifier['checkOf'] {
  return (content) => (signature) => verify(null, content, key, signature);
}

function bySecret(key: Buffer): Verifier['checkOf'] {
  return (content) => {
    const expected = createHmac('sha256', key).update(content).digest();
    return (signature) => signature.length === expected.length && timingSafeEqual(signature, expected);
  };
}

/** Compares two texts in a time that does not show where they differ, so that nobody can guess a `uuid` bit by bit. */
export function areEqual(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

import { createHmac, randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { clock } from '../../clock.ts';

const LIFE_MS = 5 * 60_000;
const MOST_REMEMBERED = 10_000;
const TIME_BYTES = 6;
const RANDOM_BYTES = 8;
const TAG_BYTES = 16;
const PAYLOAD_BYTES = TIME_BYTES + RANDOM_BYTES;

/**
 * Nonces that carry their time and are signed, so that any web process knows those of the others without storing them.
 * The key comes from the root key by scrypt and not by a plain hash: any passer-by gets a nonce, against which he could
 * try root keys at home, a billion a second with a plain hash.
 */
export class Nonces {
  readonly #key: Buffer;
  readonly #nowMs: () => number;
  /** The times of nonces that were found to be ours: a client uses one many times, and the HMAC is half of Digest's CPU. */
  readonly #ours = new Map<string, number>();

  /** Takes some 50 ms of CPU, for scrypt. */
  constructor(rootKey: string, nowMs: () => number = clock.wallMs) {
    this.#key = scryptSync(rootKey, 'routemaster digest nonces', 32);
    this.#nowMs = nowMs;
  }

  issue(): string {
    const payload = Buffer.alloc(PAYLOAD_BYTES);
    payload.writeUIntBE(this.#nowMs(), 0, TIME_BYTES);
    randomBytes(RANDOM_BYTES).copy(payload, TIME_BYTES);
    return Buffer.concat([payload, this.#tag(payload)]).toString('base64url');
  }

  /** `unknown`: none of ours. `old`: ours, of more than five minutes ago, or that far ahead of this host's clock. */
  check(nonce: string): 'fresh' | 'old' | 'unknown' {
    const issuedMs = this.#ours.get(nonce) ?? this.#verify(nonce);
    if (issuedMs === undefined) return 'unknown';
    return Math.abs(this.#nowMs() - issuedMs) < LIFE_MS ? 'fresh' : 'old';
  }

  /** When it was issued, ms; undefined if it is none of ours. */
  #verify(nonce: string): number | undefined {
    if (!/^[\w-]{40}$/.test(nonce)) return undefined;
    const bytes = Buffer.from(nonce, 'base64url');
    const payload = bytes.subarray(0, PAYLOAD_BYTES);
    if (!timingSafeEqual(bytes.subarray(PAYLOAD_BYTES), this.#tag(payload))) return undefined;
    const issuedMs = payload.readUIntBE(0, TIME_BYTES);
    if (this.#ours.size >= MOST_REMEMBERED) this.#ours.clear();
    this.#ours.set(nonce, issuedMs);
    return issuedMs;
  }

  #tag(payload: Buffer): Buffer {
    return createHmac('sha256', this.#key).update(payload).digest().subarray(0, TAG_BYTES);
  }
}

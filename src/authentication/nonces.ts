import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { NonceKeys } from './nonce_keys.ts';
import { NONCE_AHEAD_MS, NONCE_LIFE_MS, type NonceUse, type NonceUses } from './nonce_uses.ts';

const MAX_REMEMBERED = 10_000;
const TIME_BYTES = 6;
const RANDOM_BYTES = 8;
const TAG_BYTES = 16;
const PAYLOAD_BYTES = TIME_BYTES + RANDOM_BYTES;
/** As many characters of a nonce as hold its payload: no two have the same. */
const ID_CHARACTERS = 19;

/** Nonces that carry their time and are signed, so that any web process knows those of the others without storing them. */
export class Nonces {
  readonly #keys: Pick<NonceKeys, 'nowMs' | 'current' | 'of' | 'load'>;
  readonly #uses: Pick<NonceUses, 'consume'>;
  /** When each verified nonce was issued: a client uses one many times, and the HMAC is half of Digest's CPU. */
  readonly #issuedMs = new LRUCache<string, number>({ max: MAX_REMEMBERED });

  constructor(keys: Pick<NonceKeys, 'nowMs' | 'current' | 'of' | 'load'>, uses: Pick<NonceUses, 'consume'>) {
    this.#keys = keys;
    this.#uses = uses;
  }

  /** Whether nonces can be issued and checked; if not, `prepare`. */
  get ready(): boolean {
    return this.#keys.current() !== undefined;
  }

  /** Throws StorageUnavailable if there is no key to be had. */
  prepare(): Promise<void> {
    return this.#keys.load();
  }

  /** Only when `ready`. */
  issue(): string {
    const key = this.#keys.current();
    if (!key) throw new Error('a nonce was wanted before there was a key');
    const payload = Buffer.alloc(PAYLOAD_BYTES);
    payload.writeUIntBE(Math.round(this.#keys.nowMs()), 0, TIME_BYTES);
    randomBytes(RANDOM_BYTES).copy(payload, TIME_BYTES);
    return Buffer.concat([payload, tag(key, payload)]).toString('base64url');
  }

  /** `unknown`: none of ours, or of a day ago. `old`: ours, of more than five minutes ago. Only when `ready`. */
  check(nonce: string): 'fresh' | 'old' | 'unknown' {
    const issuedMs = this.#issuedMs.get(nonce) ?? this.#verify(nonce);
    if (issuedMs === undefined) return 'unknown';
    const ageMs = this.#keys.nowMs() - issuedMs;
    return ageMs > -NONCE_AHEAD_MS && ageMs < NONCE_LIFE_MS ? 'fresh' : 'old';
  }

  /** Whether this count of a fresh nonce was never used before, in any process; it is used now. */
  use(use: NonceUse): Promise<boolean> {
    return this.#uses.consume(use);
  }

  /** A count of a nonce, for `use`. */
  static count(nonce: string, nc: string): NonceUse {
    return { nonce: nonce.slice(0, ID_CHARACTERS), count: Number.parseInt(nc, 16) };
  }

  /** When it was issued, ms; undefined if it is none of ours. */
  #verify(nonce: string): number | undefined {
    if (!/^[\w-]{40}$/.test(nonce)) return undefined;
    const bytes = Buffer.from(nonce, 'base64url');
    const payload = bytes.subarray(0, PAYLOAD_BYTES);
    const issuedMs = payload.readUIntBE(0, TIME_BYTES);
    const key = this.#keys.of(issuedMs);
    if (!key || !timingSafeEqual(bytes.subarray(PAYLOAD_BYTES), tag(key, payload))) return undefined;
    this.#issuedMs.set(nonce, issuedMs);
    return issuedMs;
  }
}

function tag(key: Buffer, payload: Buffer): Buffer {
  return createHmac('sha256', key).update(payload).digest().subarray(0, TAG_BYTES);
}

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { NonceKeys } from './nonce_keys.ts';
import { NONCE_AHEAD_MS, NONCE_LIFE_MS, type NonceUses } from './nonce_uses.ts';

const MAX_REMEMBERED = 10_000;
const TIME_BYTES = 6;
const RANDOM_BYTES = 8;
const TAG_BYTES = 16;
const PAYLOAD_BYTES = TIME_BYTES + RANDOM_BYTES;
/** Number of leading characters of a nonce that contain its whole payload, and so identify it. */
const ID_CHARACTERS = 19;

/**
 * Issues and checks nonces. A nonce contains its time and a signature, so each web process accepts the nonces
 * of the others without storing any.
 */
export class Nonces {
  readonly #keys: Pick<NonceKeys, 'nowMs' | 'current' | 'of' | 'load'>;
  readonly #uses: Pick<NonceUses, 'consume'>;
  /** The time of issue of verified nonces. Verifying again would double Digest's CPU time. */
  readonly #issuedMs = new LRUCache<string, number>({ max: MAX_REMEMBERED });

  constructor(keys: Pick<NonceKeys, 'nowMs' | 'current' | 'of' | 'load'>, uses: Pick<NonceUses, 'consume'>) {
    this.#keys = keys;
    this.#uses = uses;
  }

  /** True if nonces can be issued and checked; otherwise call `prepare` first. */
  get ready(): boolean {
    return this.#keys.current() !== undefined;
  }

  /** Fetches the keys. Throws StorageUnavailable. */
  prepare(): Promise<void> {
    return this.#keys.load();
  }

  /** Returns a new nonce. Needs `ready`. */
  issue(): string {
    const key = this.#keys.current();
    if (!key) throw new Error('a nonce was wanted before there was a key');
    const payload = Buffer.alloc(PAYLOAD_BYTES);
    payload.writeUIntBE(Math.round(this.#keys.nowMs()), 0, TIME_BYTES);
    randomBytes(RANDOM_BYTES).copy(payload, TIME_BYTES);
    return Buffer.concat([payload, tag(key, payload)]).toString('base64url');
  }

  /**
   * Returns `unknown` for a nonce that is not of this bus or is over a day old, `old` after five minutes,
   * otherwise `fresh`. Needs `ready`.
   */
  check(nonce: string): 'fresh' | 'old' | 'unknown' {
    const issuedMs = this.#issuedMs.get(nonce) ?? this.#verify(nonce);
    if (issuedMs === undefined) return 'unknown';
    const ageMs = this.#keys.nowMs() - issuedMs;
    return ageMs > -NONCE_AHEAD_MS && ageMs < NONCE_LIFE_MS ? 'fresh' : 'old';
  }

  /** Consumes this use. Resolves with false if any process did before. Throws StorageUnavailable. */
  use(nonce: string, nc: string): Promise<boolean> {
    return this.#uses.consume({ nonce: nonce.slice(0, ID_CHARACTERS), count: Number.parseInt(nc, 16) });
  }

  /** Returns the time of issue in ms; undefined if the signature is wrong. */
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

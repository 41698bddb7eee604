import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { NonceKeys } from './nonce_keys.ts';
import { NONCE_AHEAD_MS, NONCE_LIFE_MS, type NonceUses } from './nonce_uses.ts';

const MAX_REMEMBERED = 10_000;
const TIME_BYTES = 6;
const RANDOM_BYTES = 8;
const TAG_BYTES = 16;
const PAYLOAD_BYTES = TIME_BYTES + RANDOM_BYTES;
/** The characters that hold the payload of a nonce; they identify it. */
const ID_CHARACTERS = 19;

/** Nonces carry their time and a signature, so that every web process knows those of the others without storing them. */
export class Nonces {
  readonly #keys: Pick<NonceKeys, 'nowMs' | 'current' | 'of' | 'load'>;
  readonly #uses: Pick<NonceUses, 'consume'>;
  /** When each verified nonce was issued: a client uses one many times, and the HMAC is half of Digest's CPU. */
  readonly #issuedMs = new LRUCache<string, number>({ max: MAX_REMEMBERED });

  constructor(keys: Pick<NonceKeys, 'nowMs' | 'current' | 'of' | 'load'>, uses: Pick<NonceUses, 'consume'>) {
    this.#keys = keys;
    this.#uses = uses;
  }

  /** Whether nonces can be issued and checked; if not, call `prepare`. */
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

  /** `unknown`: not ours, or more than a day old. `old`: more than five minutes old. Only when `ready`. */
  check(nonce: string): 'fresh' | 'old' | 'unknown' {
    const issuedMs = this.#issuedMs.get(nonce) ?? this.#verify(nonce);
    if (issuedMs === undefined) return 'unknown';
    const ageMs = this.#keys.nowMs() - issuedMs;
    return ageMs > -NONCE_AHEAD_MS && ageMs < NONCE_LIFE_MS ? 'fresh' : 'old';
  }

  /** Consumes this use of a fresh nonce: false if it was consumed before, in any process. Throws StorageUnavailable. */
  use(nonce: string, nc: string): Promise<boolean> {
    return this.#uses.consume({ nonce: nonce.slice(0, ID_CHARACTERS), count: Number.parseInt(nc, 16) });
  }

  /** When it was issued, in ms; undefined if it is not ours. */
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

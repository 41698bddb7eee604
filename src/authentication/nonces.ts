import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { NonceKey, NonceKeys } from './nonce_keys.ts';
import { NONCE_AHEAD_MS, NONCE_LIFE_MS, type NonceUses, type UseOutcome } from './nonce_uses.ts';

const MAX_REMEMBERED = 10_000;
const TIME_BYTES = 6;
const RANDOM_BYTES = 8;
const TAG_BYTES = 16;
const PAYLOAD_BYTES = TIME_BYTES + RANDOM_BYTES;
/**
 * Length of the first part of a nonce. This part has the time and the random bytes, and identifies the nonce in Redis.
 */
const ID_CHARACTERS = 19;

type Keys = Pick<NonceKeys, 'nowMs' | 'current' | 'find' | 'load' | 'refresh'>;

interface Issued {
  atMs: number;
  key: NonceKey;
}

/**
 * Issues and checks Digest nonces. A nonce contains its time and a signature, so each web process accepts the nonces of
 * the others without storing them.
 */
export class Nonces {
  readonly #keys: Keys;
  readonly #uses: Pick<NonceUses, 'consume'>;
  /** Remembers nonces whose signature was verified. Verifying it at each use would double the CPU time of Digest. */
  readonly #issued = new LRUCache<string, Issued>({ max: MAX_REMEMBERED });

  constructor(keys: Keys, uses: Pick<NonceUses, 'consume'>) {
    this.#keys = keys;
    this.#uses = uses;
  }

  /** Fetches the keys that sign nonces, if this process lacks the current key. Throws StorageUnavailable. */
  async prepare(): Promise<void> {
    if (!this.#keys.current()) await this.#keys.load();
  }

  /** Call `prepare` first. */
  issue(): string {
    const key = this.#keys.current();
    if (!key) throw new Error('a nonce was wanted before there was a key');
    const payload = Buffer.alloc(PAYLOAD_BYTES);
    payload.writeUIntBE(Math.round(this.#keys.nowMs()), 0, TIME_BYTES);
    randomBytes(RANDOM_BYTES).copy(payload, TIME_BYTES);
    return Buffer.concat([payload, tag(key, payload)]).toString('base64url');
  }

  refresh(): Promise<void> {
    return this.#keys.refresh();
  }

  /**
   * Checks the time and the signature of a nonce. Call `prepare` first. Returns
   * - `unknown` if this bus did not issue the nonce, or issued it over a day ago;
   * - `old` if it is over five minutes old or far in the future, or its key was replaced;
   * - `fresh` otherwise.
   */
  check(nonce: string): 'fresh' | 'old' | 'unknown' {
    const issued = this.#verify(nonce);
    if (!issued) return 'unknown';
    if (issued.key.replaced) return 'old';
    const ageMs = this.#keys.nowMs() - issued.atMs;
    return ageMs > -NONCE_AHEAD_MS && ageMs < NONCE_LIFE_MS ? 'fresh' : 'old';
  }

  /**
   * Consumes one use of a fresh nonce (the nonce with one value of the counter `nc`), so that nobody can repeat this
   * use. `client` is a client's token, `root` or `viewer`. If the outcome is `replaced` or `expired`, this process may
   * have wrong keys, or a wrong time of Redis. So it fetches them again. Throws too_many_nonces and StorageUnavailable.
   */
  async consume(nonce: string, nc: string, client: string): Promise<UseOutcome> {
    const issued = this.#verify(nonce);
    if (!issued) return 'replaced';
    const outcome = await this.#uses.consume({
      nonce: nonce.slice(0, ID_CHARACTERS),
      count: Number.parseInt(nc, 16),
      issuedAtMs: issued.atMs,
      key: issued.key.key,
      client,
    });
    if (outcome === 'replaced' || outcome === 'expired') await this.#keys.load();
    return outcome;
  }

  #verify(nonce: string): Issued | undefined {
    const known = this.#issued.get(nonce);
    if (known) return known;
    if (!/^[\w-]{40}$/.test(nonce)) return undefined;
    const bytes = Buffer.from(nonce, 'base64url');
    const payload = bytes.subarray(0, PAYLOAD_BYTES);
    const atMs = payload.readUIntBE(0, TIME_BYTES);
    const key = this.#keys.find(atMs, (each) =>
      timingSafeEqual(bytes.subarray(PAYLOAD_BYTES), tag(each, payload)),
    );
    if (!key) return undefined;
    const issued = { atMs, key };
    this.#issued.set(nonce, issued);
    return issued;
  }
}

function tag(key: Buffer, payload: Buffer): Buffer {
  return createHmac('sha256', key).update(payload).digest().subarray(0, TAG_BYTES);
}

import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Caller, ClientCaller, Role } from '../routing/caller.ts';
import type { Client } from './client.ts';
import type { ClientDirectory } from './client_directory.ts';
import { type Digests, ha1 } from './digests.ts';
import type { Refusal, Verdict } from './verdict.ts';

export type SecretCheck = (digests: Digests) => boolean;

export const KEY_USERS = ['root', 'viewer'] as const;

/**
 * Holder of a root or viewer key. With Digest, the user name is `user`; with Basic, it is the key itself. While a key
 * is replaced, there is a holder of the old key and one of the new key.
 */
interface KeyHolder {
  user: (typeof KEY_USERS)[number];
  keyDigest: string;
  digests: Digests;
}

function keyHolder(user: KeyHolder['user'], key: string): KeyHolder {
  const digests = { sha256: ha1('SHA-256', user, key), md5: ha1('MD5', user, key) };
  return { user, keyDigest: hash('sha256', key), digests };
}

/** Returns the Digest user name of a caller. Redis keeps the caller's sessions and nonce uses under this name. */
export function userOf(caller: Caller): string {
  return caller.role === 'client' ? caller.token : caller.role;
}

const NO_SECRET: Refusal = {
  reason: 'no_secret',
  advice: 'a client without a secret cannot use Digest: use Basic with its token as the user',
};

/** Unknown users are checked against these digests, so that refusing them takes as long as refusing known users. */
const NOBODY: Digests = { sha256: randomBytes(32).toString('hex'), md5: randomBytes(16).toString('hex') };

/** Compares two digests in hex, in a time that does not show where they differ. */
export function sameDigest(a: string, b: string): boolean {
  return areEqual(Buffer.from(a), Buffer.from(b));
}

/**
 * Compares two Buffers in a time that depends only on their lengths, so that nobody can guess credentials byte by byte.
 */
export function areEqual(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

/**
 * Checks credentials against the root keys, the viewer keys and the clients. Before it refuses a client's credentials,
 * it reads the client from Redis again, because the secret may be new.
 */
export class Credentials {
  readonly #clients: ClientDirectory;
  readonly #keyHolders: readonly KeyHolder[];

  constructor(rootKeys: readonly string[], clients: ClientDirectory, viewerKeys: readonly string[] = []) {
    this.#clients = clients;
    this.#keyHolders = [
      ...rootKeys.map((key) => keyHolder('root', key)),
      ...viewerKeys.map((key) => keyHolder('viewer', key)),
    ];
  }

  get hasViewer(): boolean {
    return this.#holdersAs('viewer').length > 0;
  }

  /**
   * True for texts that no new client may have as its token: `root`, `viewer` and their keys. `viewer` is reserved even
   * without a viewer key. If this key were set later, a client `viewer` could not log in to the console.
   */
  isReserved(text: string): boolean {
    return KEY_USERS.some((user) => user === text) || this.#holderOf(text) !== undefined;
  }

  /**
   * Checks Basic credentials. `user` is the token of a client, the root key or the viewer key. Throws
   * StorageUnavailable if the client cannot be looked up.
   */
  async checkPassword(user: string, password: string): Promise<Verdict> {
    const check: SecretCheck = ({ sha256 }) => sameDigest(ha1('SHA-256', user, password), sha256);
    const judge = (client?: Client) =>
      client?.ha1 === null ? callerFor(client) : judgeSecret(client, check);
    const verdict = judge(this.#clients.cached(user));
    if ('role' in verdict) return verdict;
    const holder = this.#holderOf(user);
    return holder ? { role: holder.user } : this.#judgeFound(user, judge);
  }

  /** Checks a login form: `root` or `viewer` with its key, or whatever `checkPassword` accepts. */
  async checkLogin(user: string, password: string): Promise<Verdict> {
    if (this.#holdersAs(user).length === 0) return await this.checkPassword(user, password);
    const holder = this.#holderOf(password);
    return holder?.user === user ? { role: holder.user } : { reason: 'wrong_secret', client: user };
  }

  /** Checks a Digest answer. Throws StorageUnavailable if the client cannot be looked up. */
  async checkDigest(user: string, check: SecretCheck): Promise<Verdict> {
    const holders = this.#holdersAs(user);
    if (holders.length > 0) {
      const holder = holders.find(({ digests }) => check(digests));
      return holder ? { role: holder.user } : { reason: 'wrong_secret', client: user };
    }
    const judge = (client?: Client) => (client?.ha1 === null ? NO_SECRET : judgeSecret(client, check));
    const verdict = judge(this.#clients.cached(user));
    return 'role' in verdict ? verdict : this.#judgeFound(user, judge);
  }

  /**
   * Resolves with the caller of a session and its current scopes. Resolves with undefined if the client was removed, or
   * if the credential with which the session began is no longer valid. `proof` is what `sessionProof` returned when the
   * session began. Throws StorageUnavailable if the client cannot be looked up.
   */
  async callerWith(role: Role, token: string | undefined, proof: string): Promise<Caller | undefined> {
    if (role !== 'client') {
      const proofs = this.#holdersAs(role).map(({ digests }) => sessionProofOf(digests));
      return proofs.some((each) => sameDigest(each, proof)) ? { role } : undefined;
    }
    const client = await this.#clients.findNow(token ?? '');
    const proofs = client ? [client.ha1, ...(client.former ? [client.former] : [])].map(sessionProofOf) : [];
    return client && proofs.some((each) => sameDigest(each, proof)) ? callerFor(client) : undefined;
  }

  /**
   * Resolves with a digest of the credential with which the caller has logged in. The session stores this digest, and
   * ends when no valid credential of the caller has the same digest any more. `user` and `password` are those of the
   * login form; for root and viewers, one of them is the key.
   */
  async sessionProof(caller: Caller, user: string, password: string): Promise<string> {
    if (caller.role !== 'client')
      return sessionProofOf((this.#holderOf(user) ?? this.#holderOf(password))?.digests ?? null);
    const hasSecret = Boolean((await this.#clients.find(caller.token))?.ha1);
    return sessionProofOf(hasSecret ? { sha256: ha1('SHA-256', caller.token, password) } : null);
  }

  /**
   * Looks up the client and judges it. If a lookup of the client is already under way, judges its result first. That
   * lookup may have begun before the credentials became valid, so its result may accept them, but not refuse them. To
   * refuse them, this method waits for a later lookup. Simultaneous calls share their lookups.
   */
  async #judgeFound(user: string, judge: (client?: Client) => Verdict): Promise<Verdict> {
    const earlier = this.#clients.underWay(user);
    const verdict = earlier && judge(await earlier);
    if (verdict && 'role' in verdict) return verdict;
    return judge(await (this.#clients.underWay(user) ?? this.#clients.findNow(user)));
  }

  #holdersAs(user: string): readonly KeyHolder[] {
    return this.#keyHolders.filter((each) => each.user === user);
  }

  /**
   * Returns the holder of the key `text`. Compares with every key even after a match, so that the time taken tells
   * nothing about the keys.
   */
  #holderOf(text: string): KeyHolder | undefined {
    const digest = hash('sha256', text);
    return this.#keyHolders.filter(({ keyDigest }) => sameDigest(digest, keyDigest))[0];
  }
}

/**
 * Returns a digest by which a session notices that its credential has changed. For a client without a secret, the
 * digest is always the same, because its credential is its token, which cannot change.
 */
function sessionProofOf(digests: Pick<Digests, 'sha256'> | null): string {
  return hash('sha256', `session ${digests?.sha256 ?? ''}`);
}

function judgeSecret(client: Client | undefined, check: SecretCheck): Verdict {
  const right = check(client?.ha1 ?? NOBODY);
  if (!client) return { reason: 'unknown_user' };
  if (right || (client.former && check(client.former))) return callerFor(client);
  return { reason: 'wrong_secret', client: client.token };
}

export function callerFor({ token, name, scopes }: Client): ClientCaller {
  return scopes ? { role: 'client', token, name, scopes } : { role: 'client', token, name };
}

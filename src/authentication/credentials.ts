import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Caller } from '../caller.ts';
import { type Client, type Digests, ha1 } from './client.ts';
import type { ClientDirectory } from './client_directory.ts';
import type { Refusal, Verdict } from './verdict.ts';

/** The user name of root for Digest. With Basic, the root key is the user name. */
export const ROOT_USER = 'root';

export type Proof = (digests: Digests) => boolean;

const ROOT: Caller = { role: 'root' };

const NO_SECRET: Refusal = {
  reason: 'no_secret',
  advice: 'a client without a secret cannot use Digest: use Basic with its token as the user',
};

/** Matches nothing. Checked for unknown users, whose answers then take as long as others. */
const NOBODY: Digests = { sha256: randomBytes(32).toString('hex'), md5: randomBytes(16).toString('hex') };

/** Compares two digests in hex in constant time. */
export function sameDigest(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

/**
 * Checks credentials against the root key and the clients. If they are wrong for the cached client, the
 * client is looked up again, because its secret may be new. So a wrong secret takes as long as an unknown
 * user.
 */
export class Credentials {
  readonly #clients: ClientDirectory;
  readonly #rootKeyDigest: string;
  readonly #rootDigests: Digests;

  constructor(rootKey: string, clients: ClientDirectory) {
    this.#clients = clients;
    this.#rootKeyDigest = hash('sha256', rootKey);
    this.#rootDigests = {
      sha256: ha1('SHA-256', ROOT_USER, rootKey),
      md5: ha1('MD5', ROOT_USER, rootKey),
    };
  }

  isRootKey(text: string): boolean {
    return sameDigest(hash('sha256', text), this.#rootKeyDigest);
  }

  /**
   * Checks a user and password of Basic. The root key is compared before any lookup: a lookup would send it
   * to Redis. Throws an error of the lookup.
   */
  checkPassword(user: string, password: string): Verdict | Promise<Verdict> {
    const proof: Proof = ({ sha256 }) => sameDigest(ha1('SHA-256', user, password), sha256);
    const judge = (client?: Client) =>
      client?.ha1 === null ? callerFor(client) : judgeSecret(client, proof);
    const verdict = judge(this.#clients.known(user));
    if ('role' in verdict) return verdict;
    return this.isRootKey(user) ? ROOT : this.#clients.ask(user).then(judge);
  }

  /** Checks a proof of Digest. If the client lookup fails, its error is passed on. */
  checkProof(user: string, proof: Proof): Verdict | Promise<Verdict> {
    if (user === ROOT_USER)
      return proof(this.#rootDigests) ? ROOT : { reason: 'wrong_secret', client: ROOT_USER };
    const judge = (client?: Client) => (client?.ha1 === null ? NO_SECRET : judgeSecret(client, proof));
    const verdict = judge(this.#clients.known(user));
    return 'role' in verdict ? verdict : this.#clients.ask(user).then(judge);
  }
}

function judgeSecret(client: Client | undefined, proof: Proof): Verdict {
  const right = proof(client?.ha1 ?? NOBODY);
  if (!client) return { reason: 'unknown_user' };
  if (right || (client.former && proof(client.former))) return callerFor(client);
  return { reason: 'wrong_secret', client: client.token };
}

function callerFor({ token, name, scopes }: Client): Caller {
  return scopes ? { role: 'client', token, name, scopes } : { role: 'client', token, name };
}

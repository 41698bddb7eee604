import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Caller } from '../caller.ts';
import { type Client, type Digests, ha1 } from './client.ts';
import type { ClientDirectory } from './client_directory.ts';
import type { Refusal, Verdict } from './verdict.ts';

/** Digest needs a user name for root; Basic has the root key itself there. */
export const ROOT_USER = 'root';

/** Whether what the caller sent was made with the secret of these digests. */
export type Proof = (digests: Digests) => boolean;

const ROOT: Caller = { role: 'root' };

const NO_SECRET: Refusal = {
  reason: 'no_secret',
  advice: 'a client without a secret cannot use Digest: use Basic with its token as the user',
};

/** Stands in for the digests of an unknown user, who then costs what a known one costs. Matches nothing. */
const NOBODY: Digests = { sha256: randomBytes(32).toString('hex'), md5: randomBytes(16).toString('hex') };

/** Compares two digests in hex in a time that does not tell how much of them is the same. */
export function sameDigest(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

/**
 * Checks credentials against the root key and the clients. Credentials that are wrong by what is remembered of the client are
 * checked again after a lookup, as a secret may be new; so a wrong secret takes as long as an unknown user.
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
   * For Basic. The root key is never looked up, as that would send it to Redis; so no client can stand in front of it. Throws as
   * the lookup does.
   */
  checkPassword(user: string, password: string): Verdict | Promise<Verdict> {
    const proof: Proof = ({ sha256 }) => sameDigest(ha1('SHA-256', user, password), sha256);
    const judge = (client?: Client) =>
      client?.ha1 === null ? callerFor(client) : judgeSecret(client, proof);
    const verdict = judge(this.#clients.known(user));
    if ('role' in verdict) return verdict;
    return this.isRootKey(user) ? ROOT : this.#clients.ask(user).then(judge);
  }

  /** For Digest. Throws as the lookup of the client does. */
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

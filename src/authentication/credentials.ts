import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { clock } from '../clock.ts';
import type { Caller, Judged, Refusal, Verdict } from './caller.ts';
import { type Client, type Digests, ha1 } from './client.ts';
import type { ClientDirectory } from './client_directory.ts';

/** Digest needs a user name for root; Basic has the root key itself there. */
export const ROOT_USER = 'root';

/** Whether what the caller sent was made with the secret of these digests. */
export type Proof = (digests: Digests) => boolean;

const ROOT: Caller = { role: 'root' };

const NO_SECRET: Refusal = {
  reason: 'no_secret',
  advice: 'a client without a secret cannot use Digest: use Basic with its token as the user',
};

/** For how long what was sent stands for what it proved: it is as good as a secret, and not to lie about. */
const PROVED_MS = 1000;
const MOST_PROVED = 10_000;
/** Characters. Tokens and secrets of ours take 140; any password goes with a token alone, and would be kept. */
const LONGEST_PROVED = 256;

/** What Basic says. */
export interface Login {
  user: string;
  password: string;
  /** The header that says it. */
  sent: string;
}

interface Proved {
  client: Client;
  caller: Caller;
}

/** Compared with where there is no client, so that an unknown user costs what a known one costs. Matches nothing. */
const NOBODY: Digests = { sha256: randomBytes(32).toString('hex'), md5: randomBytes(16).toString('hex') };

/** Whether two digests in hex are the same, in a time that does not tell how much of them is. */
export function sameDigest(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

/**
 * The root key and the clients, as the two schemes ask for them. Calls back at once where what is known is enough. What is wrong by
 * that is looked up: a secret may be new. So a wrong secret takes as long as an unknown user.
 */
export class Credentials {
  readonly #clients: ClientDirectory;
  readonly #rootKeyDigest: string;
  readonly #rootDigests: Digests;
  /** By the header. A map of text is no help to who guesses: only hashes are compared, with a seed of the process, until they match. */
  readonly #proved = new Map<string, Proved>();
  #provedUntilMs = 0;

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
   * The client that was proved by this very header within the last second, and is still known as it was then: decoding and
   * hashing take 1 to 2 µs of a publish.
   */
  proved(sent: string): Caller | undefined {
    const proved = this.#proved.get(sent);
    return proved && this.#clients.known(proved.client.token) === proved.client ? proved.caller : undefined;
  }

  /** For Basic. The root key is never looked up, as that would send it to Redis; so no client can stand in front of it. */
  checkPassword({ user, password, sent }: Login, done: Judged): void {
    const proof: Proof = ({ sha256 }) => sameDigest(ha1('SHA-256', user, password), sha256);
    const judge = (client?: Client) =>
      client?.ha1 === null ? callerFor(client) : judgeSecret(client, proof);
    const client = this.#clients.known(user);
    const verdict = judge(client);
    if (client && 'role' in verdict) {
      this.#remember(sent, { client, caller: verdict });
      done(null, verdict);
    } else if (this.isRootKey(user)) done(null, ROOT);
    else this.#clients.ask(user).then((client) => done(null, judge(client)), done);
  }

  #remember(sent: string, proved: Proved): void {
    if (sent.length > LONGEST_PROVED) return;
    const nowMs = clock.monotonicMs();
    if (nowMs >= this.#provedUntilMs || this.#proved.size >= MOST_PROVED) {
      this.#proved.clear();
      this.#provedUntilMs = nowMs + PROVED_MS;
    }
    this.#proved.set(sent, proved);
  }

  /** For Digest. */
  checkProof(user: string, proof: Proof, done: Judged): void {
    if (user === ROOT_USER) {
      const wrong: Refusal = { reason: 'wrong_secret', client: ROOT_USER };
      return void done(null, proof(this.#rootDigests) ? ROOT : wrong);
    }
    const judge = (client?: Client) => (client?.ha1 === null ? NO_SECRET : judgeSecret(client, proof));
    const verdict = judge(this.#clients.known(user));
    if ('role' in verdict) done(null, verdict);
    else this.#clients.ask(user).then((client) => done(null, judge(client)), done);
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

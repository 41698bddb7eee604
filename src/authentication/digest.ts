import type { IncomingMessage } from 'node:http';
import { DigestStrategy } from 'passport-http';
import { BusError } from '../errors.ts';
import { credentialsOf, notByPassport } from './authorization.ts';
import { type Credentials, type SecretCheck, sameDigest, userOf } from './credentials.ts';
import { type DigestAnswer, expectedResponse, namesTarget, readAnswer } from './digest_answer.ts';
import { type DigestAlgorithm, HASHES, REALM } from './digests.ts';
import type { Nonces } from './nonces.ts';
import type { Refusal, Verdict } from './verdict.ts';

const STALE: Refusal = { reason: 'stale', stale: true };

const WRONG_TERMS: Refusal = {
  reason: 'wrong_terms',
  advice: 'take realm, nonce and algorithm from one of the challenges of this answer',
};

/**
 * Digest authentication with qop=auth (RFC 7616). `judge` replaces `authenticate` of passport-http, which knows only
 * MD5, checks no nonce, lets the client choose the realm, and takes quadratic time to read the header.
 */
export class Digest extends DigestStrategy {
  readonly #credentials: Credentials;
  readonly #nonces: Nonces;
  /** The hash algorithms in the order of the challenges. Clients use the first one that they know. */
  readonly #algorithms: readonly DigestAlgorithm[];

  constructor(credentials: Credentials, nonces: Nonces, md5: boolean) {
    super({ realm: REALM, qop: 'auth' }, notByPassport);
    this.#credentials = credentials;
    this.#nonces = nonces;
    this.#algorithms = md5 ? ['SHA-256', 'MD5'] : ['SHA-256'];
  }

  override authenticate = notByPassport;

  /**
   * Checks the Authorization header of a request. Correct credentials consume a nonce use (this nonce with this value
   * of the counter `nc`), so that nobody can send a recorded request again. Throws too_many_nonces or
   * StorageUnavailable. Throws bad_header if the header is malformed, or its `uri` is not the target of the request.
   */
  async judge(request: IncomingMessage): Promise<Verdict> {
    const answer = readAnswer(credentialsOf(request));
    if (!namesTarget(answer.uri, request))
      throw new BusError('bad_header', 'the Digest parameter uri must be the target of the request');
    await this.#nonces.prepare();
    let age = this.#nonces.check(answer.nonce);
    if (age === 'unknown') {
      await this.#nonces.refresh();
      age = this.#nonces.check(answer.nonce);
    }
    const algorithm = this.#algorithms.find((name) => name === answer.algorithm);
    if (age === 'unknown' || !algorithm || answer.realm !== REALM) return WRONG_TERMS;
    const check = checkOf(answer, algorithm, request.method ?? '');
    const verdict = await this.#credentials.checkDigest(answer.username, check);
    // A wrong secret is refused first: only a caller with the right one may learn what is wrong with the nonce.
    if (!('role' in verdict)) return verdict;
    if (age === 'old') return STALE;
    const client = userOf(verdict);
    const use = await this.#nonces.consume(answer.nonce, answer.nc, client);
    if (use === 'consumed') return verdict;
    return use === 'repeated' ? { reason: 'repeated_count', client, stale: true } : STALE;
  }

  /** Checks again the credentials of a request that `judge` has accepted. Consumes no nonce use. */
  async judgeAgain(request: IncomingMessage): Promise<Verdict> {
    const answer = readAnswer(credentialsOf(request));
    const algorithm = this.#algorithms.find((name) => name === answer.algorithm);
    if (!algorithm) return WRONG_TERMS;
    const check = checkOf(answer, algorithm, request.method ?? '');
    return await this.#credentials.checkDigest(answer.username, check);
  }

  /** Resolves with a challenge for each algorithm, all with the same new nonce. Throws StorageUnavailable. */
  async challenges(stale: boolean): Promise<string[]> {
    await this.#nonces.prepare();
    const terms = `realm="${REALM}", qop="auth", nonce="${this.#nonces.issue()}", charset=UTF-8`;
    return this.#algorithms.map((name) => `Digest ${terms}, algorithm=${name}${stale ? ', stale=true' : ''}`);
  }
}

function checkOf(answer: DigestAnswer, algorithm: DigestAlgorithm, method: string): SecretCheck {
  return (digests) => {
    const digest = digests[HASHES[algorithm]];
    // An empty digest means that the client has none for this algorithm. Anybody could compute a response from an empty
    // digest.
    if (digest === '') return false;
    return sameDigest(expectedResponse(algorithm, digest, method, answer), answer.response);
  };
}

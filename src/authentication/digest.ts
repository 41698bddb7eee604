import type { IncomingMessage } from 'node:http';
import { DigestStrategy } from 'passport-http';
import type { Caller } from '../caller.ts';
import { BusError } from '../errors.ts';
import { credentialsOf, notByPassport } from './authorization.ts';
import { type DigestAlgorithm, HASHES, REALM } from './client.ts';
import { type Credentials, type Proof, ROOT_USER, sameDigest } from './credentials.ts';
import { type DigestAnswer, expectedResponse, readAnswer } from './digest_answer.ts';
import type { Nonces } from './nonces.ts';
import { namesTarget } from './request_target.ts';
import type { Refusal, Verdict } from './verdict.ts';

const STALE: Refusal = { reason: 'stale', stale: true };

const WRONG_TERMS: Refusal = {
  reason: 'wrong_terms',
  advice: 'take realm, nonce and algorithm from one of the challenges of this answer',
};

/**
 * Digest as in RFC 7616, with qop=auth. passport-http's own is of 2015: it knows MD5 only, never checks a nonce, does without
 * qop, lets the client choose the realm, and reads the header in quadratic time. `judge` replaces its `authenticate`.
 */
export class Digest extends DigestStrategy {
  readonly #credentials: Credentials;
  readonly #nonces: Nonces;
  /** In the order of the challenges: clients take the first that they know. */
  readonly #algorithms: readonly DigestAlgorithm[];

  constructor(credentials: Credentials, nonces: Nonces, { md5 }: { md5: boolean }) {
    super({ realm: REALM, qop: 'auth' }, notByPassport);
    this.#credentials = credentials;
    this.#nonces = nonces;
    this.#algorithms = md5 ? ['SHA-256', 'MD5'] : ['SHA-256'];
  }

  override authenticate = notByPassport;

  /**
   * Consumes the nonce use of a right answer, whatever becomes of the request later; otherwise a recorded request that was
   * refused could be sent again with another body. Throws bad_header for an answer that no secret could make right, and
   * StorageUnavailable.
   */
  async judge(request: IncomingMessage): Promise<Verdict> {
    const answer = readAnswer(credentialsOf(request));
    if (!namesTarget(answer.uri, request))
      throw new BusError('bad_header', 'the Digest parameter uri must be the target of the request');
    if (!this.#nonces.ready) await this.#nonces.prepare();
    const age = this.#nonces.check(answer.nonce);
    const algorithm = this.#algorithms.find((name) => name === answer.algorithm);
    if (age === 'unknown' || !algorithm || answer.realm !== REALM) return WRONG_TERMS;
    const proof = proofOf(answer, algorithm, request.method ?? '');
    const verdict = await this.#credentials.checkProof(answer.username, proof);
    // Only a right answer may learn that its nonce is old, or was used.
    if (!('role' in verdict)) return verdict;
    if (age === 'old') return STALE;
    return (await this.#nonces.use(answer.nonce, answer.nc)) ? verdict : repeatedUse(verdict);
  }

  /** One challenge an algorithm, all with one nonce. Only when the nonces are ready. */
  challenges(stale: boolean): string[] {
    const terms = `realm="${REALM}", qop="auth", nonce="${this.#nonces.issue()}", charset=UTF-8`;
    return this.#algorithms.map((name) => `Digest ${terms}, algorithm=${name}${stale ? ', stale=true' : ''}`);
  }
}

function proofOf(answer: DigestAnswer, algorithm: DigestAlgorithm, method: string): Proof {
  return (digests) => {
    const digest = digests[HASHES[algorithm]];
    // Without a digest for this algorithm the response would need no secret: anybody could compute it.
    if (digest === '') return false;
    return sameDigest(expectedResponse(algorithm, digest, method, answer), answer.response);
  };
}

function repeatedUse(caller: Caller): Refusal {
  const client = caller.role === 'root' ? ROOT_USER : caller.token;
  return { reason: 'repeated_count', client, stale: true };
}

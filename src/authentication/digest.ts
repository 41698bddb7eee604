import type { IncomingMessage } from 'node:http';
import type { Request } from 'express';
import { DigestStrategy } from 'passport-http';
import { BusError } from '../errors.ts';
import { credentialsOf } from './authorization.ts';
import { type Attempt, type Caller, end, type Judged, type Refusal } from './caller.ts';
import { type DigestAlgorithm, HASHES, REALM } from './client.ts';
import { type Credentials, type Proof, ROOT_USER, sameDigest } from './credentials.ts';
import { type DigestAnswer, expectedResponse, readAnswer } from './digest_answer.ts';
import { Nonces } from './nonces.ts';
import { plainAnswer } from './plain_answer.ts';
import { namesTarget } from './request_target.ts';

const STALE: Refusal = { reason: 'stale', stale: true };

const WRONG_TERMS: Refusal = {
  reason: 'wrong_terms',
  advice: 'take realm, nonce and algorithm from one of the challenges of this answer',
};

type CheckProof = (user: string, proof: Proof, done: Judged) => void;

/**
 * Digest as in RFC 7616, with qop=auth. passport-http's own is of 2015: it knows MD5 only, never checks a nonce, does
 * without qop, lets the client choose the realm, and reads the header in quadratic time.
 */
export class Digest extends DigestStrategy implements Attempt {
  // Passport calls `authenticate` on an object derived from this one, to which it adds these; hence nothing here has a #.
  declare readonly success: Attempt['success'];
  declare readonly fail: Attempt['fail'];
  declare readonly error: Attempt['error'];
  /** What the constructor of passport-http's class is given, by its name for it. */
  declare readonly _secret: CheckProof;
  private readonly nonces: Nonces;
  /** In the order of the challenges: clients take the first that they know. */
  private readonly algorithms: readonly DigestAlgorithm[];

  constructor(credentials: Credentials, nonces: Nonces, { md5 }: { md5: boolean }) {
    const check: CheckProof = (user, proof, done) => credentials.checkProof(user, proof, done);
    // It only keeps the function, which in its own way would hand out a secret.
    super({ realm: REALM, qop: 'auth' }, check as ConstructorParameters<typeof DigestStrategy>[1]);
    this.nonces = nonces;
    this.algorithms = md5 ? ['SHA-256', 'MD5'] : ['SHA-256'];
  }

  /** As passport calls it, for the routes of Express. */
  override authenticate(req: Request): void {
    this.judge(req, (error, verdict) => end(this, error, verdict));
  }

  /**
   * The same without passport, for a plain publish. The error is bad_header for an answer that no secret could make right. `later`:
   * the count is not taken, but handed on with the verdict.
   */
  judge(req: IncomingMessage, done: Judged, later = false): void {
    let answer: DigestAnswer;
    try {
      const text = credentialsOf(req);
      answer = plainAnswer(text) ?? readAnswer(text);
      if (!namesTarget(answer.uri, req)) {
        throw new BusError('bad_header', 'the Digest parameter uri must be the target of the request');
      }
    } catch (error) {
      return void done(error);
    }
    const weigh = () => this.weigh(answer, req.method ?? '', done, later);
    if (this.nonces.ready) weigh();
    else this.nonces.prepare().then(weigh, done);
  }

  /** One challenge an algorithm, all with one nonce. Only when the nonces are ready. */
  challenges(stale: boolean): string[] {
    const terms = `realm="${REALM}", qop="auth", nonce="${this.nonces.issue()}", charset=UTF-8`;
    return this.algorithms.map((name) => `Digest ${terms}, algorithm=${name}${stale ? ', stale=true' : ''}`);
  }

  private weigh(answer: DigestAnswer, method: string, done: Judged, later: boolean): void {
    const age = this.nonces.check(answer.nonce);
    const algorithm = this.algorithms.find((name) => name === answer.algorithm);
    if (age === 'unknown' || !algorithm || answer.realm !== REALM) return void done(null, WRONG_TERMS);
    const proof: Proof = (digests) => {
      const digest = digests[HASHES[algorithm]];
      // Of a secret that has none by this algorithm anybody could tell the response.
      return (
        digest !== '' && sameDigest(expectedResponse(algorithm, digest, method, answer), answer.response)
      );
    };
    this._secret(answer.username, proof, (error, verdict) => {
      // Only a right answer may learn that its nonce is old, or its count used.
      if (error || !verdict || !('role' in verdict)) done(error, verdict);
      else if (age === 'old') done(null, STALE);
      else if (later) done(null, verdict, Nonces.count(answer.nonce, answer.nc));
      else this.useCount(answer, verdict, done);
    });
  }

  private useCount({ nonce, nc }: DigestAnswer, caller: Caller, done: Judged): void {
    this.nonces
      .use(Nonces.count(nonce, nc))
      .then((isNew) => done(null, isNew ? caller : repeatedCount(caller)), done);
  }
}

/** The count of a right answer was taken before. */
export function repeatedCount(caller: Caller): Refusal {
  const client = caller.role === 'root' ? ROOT_USER : caller.token;
  return { reason: 'repeated_count', client, stale: true };
}

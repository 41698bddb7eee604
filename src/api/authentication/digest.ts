import type { Request } from 'express';
import { DigestStrategy } from 'passport-http';
import { BusError } from '../../errors.ts';
import { type DigestAlgorithm, HASHES, REALM } from '../../models/client.ts';
import { credentialsOf } from './authorization.ts';
import { type Attempt, end, type Judged, type Refusal, type Verdict } from './caller.ts';
import {
  type Credentials,
  type Holder,
  type HolderFound,
  NOBODY,
  ROOT_USER,
  sameDigest,
} from './credentials.ts';
import { type DigestAnswer, expectedResponse, readAnswer } from './digest_answer.ts';
import type { Nonces } from './nonces.ts';
import { namesTarget } from './request_target.ts';

/** In the order of the challenges: clients take the first that they know. */
const ALGORITHMS = Object.keys(HASHES) as DigestAlgorithm[];

const STALE: Refusal = { message: 'stale nonce', stale: true };

const WRONG_TERMS: Refusal = {
  message: 'not the terms of our challenge',
  advice: 'take realm, nonce and algorithm from one of the challenges of this answer',
};

const NO_SECRET: Refusal = {
  message: 'Digest without a secret',
  advice: 'a client without a secret cannot use Digest: use Basic with its token as the user',
};

type FindHolder = (user: string, done: HolderFound) => void;

/**
 * Digest as in RFC 7616, with qop=auth. passport-http's own is of 2015: it knows MD5 only, never checks a nonce, does
 * without qop, lets the client choose the realm, and reads the header in quadratic time.
 */
export class Digest extends DigestStrategy implements Attempt {
  // Passport runs an object derived from this one for each attempt, to which it adds these; hence nothing here has a #.
  declare readonly success: Attempt['success'];
  declare readonly fail: Attempt['fail'];
  declare readonly error: Attempt['error'];
  /** What the constructor of passport-http's class is given, by its name for it. */
  declare readonly _secret: FindHolder;
  private readonly nonces: Nonces;

  constructor(credentials: Credentials, nonces: Nonces) {
    const find: FindHolder = (user, done) => credentials.findHolder(user, done);
    super({ realm: REALM, qop: 'auth' }, find);
    this.nonces = nonces;
  }

  /** As passport calls it. Throws as `judge` does. */
  override authenticate(req: Request): void {
    this.judge(req, (error, verdict) => end(this, error, verdict));
  }

  /** Throws bad_header for an answer that no secret could make right. */
  judge(req: Request, done: Judged): void {
    const answer = readAnswer(credentialsOf(req));
    if (!namesTarget(answer.uri, req)) {
      throw new BusError('bad_header', 'the Digest parameter uri must be the target of the request');
    }
    const age = this.nonces.check(answer.nonce);
    const algorithm = ALGORITHMS.find((name) => name === answer.algorithm);
    if (age === 'unknown' || !algorithm || answer.realm !== REALM) done(null, WRONG_TERMS);
    else {
      this._secret(answer.username, (error, holder) => {
        if (error) return done(error);
        const verdict = judge(holder, algorithm, req.method, answer);
        // Only a right answer may learn that its nonce is old.
        done(null, age === 'old' && 'role' in verdict ? STALE : verdict);
      });
    }
  }

  /** One challenge an algorithm, all with one nonce. */
  challenges(stale: boolean): string[] {
    const terms = `realm="${REALM}", qop="auth", nonce="${this.nonces.issue()}", charset=UTF-8`;
    return ALGORITHMS.map((name) => `Digest ${terms}, algorithm=${name}${stale ? ', stale=true' : ''}`);
  }
}

function judge(
  holder: Holder | undefined,
  algorithm: DigestAlgorithm,
  method: string,
  answer: DigestAnswer,
): Verdict {
  const digest = (holder?.ha1 ?? NOBODY)[HASHES[algorithm]];
  const right = sameDigest(expectedResponse(algorithm, digest, method, answer), answer.response);
  if (!holder) return { message: 'unknown user' };
  if (!holder.ha1) return NO_SECRET;
  if (right) return holder.caller;
  return { message: 'wrong secret', client: holder.caller.role === 'root' ? ROOT_USER : holder.caller.token };
}

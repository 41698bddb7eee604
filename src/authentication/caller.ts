import type { Request } from 'express';
import type { NonceUse } from './nonce_uses.ts';
import type { Scopes } from './scope.ts';

export type Role = 'client' | 'root';

/** Who makes the request, proved. `scopes`: if it is limited. */
export type Caller = { role: 'root' } | { role: 'client'; token: string; name: string; scopes?: Scopes };

/** Why credentials fail, for log and figures. */
export type FailureReason =
  | 'unknown_scheme'
  | 'malformed'
  | 'unknown_user'
  | 'wrong_secret'
  | 'no_secret'
  | 'wrong_terms'
  | 'repeated_count';

/** Why credentials are refused. */
export type Refusal = {
  /** `stale` is no failure: all was right but the age of the nonce. */
  reason: FailureReason | 'stale';
  /** For the caller: what to change, where that tells no stranger who exists. */
  advice?: string;
  /** The client that was named, if it has a secret: the token of one without is a credential, and so is a guess. */
  client?: string;
  /** The answer was right, but for its nonce: RFC 7616 lets a client try again with another, without asking a person. */
  stale?: boolean;
};

export type Verdict = Caller | Refusal;

/**
 * Called with a verdict, or with the error that kept us from one. `count`: it holds only if this is taken, which is for whoever
 * asked for it to see to, before anything becomes of the request.
 */
export type Judged = (error: unknown, verdict?: Verdict, count?: NonceUse) => void;

/** What passport gives a strategy to end an attempt with. */
export interface Attempt {
  success(caller: Caller): void;
  fail(refusal: Refusal): void;
  error(error: unknown): void;
}

/** Ends an attempt with a verdict, or with the error that kept us from one. */
export function end(attempt: Attempt, error: unknown, verdict?: Verdict): void {
  if (error || verdict === undefined) attempt.error(error);
  else if ('role' in verdict) attempt.success(verdict);
  else attempt.fail(verdict);
}

const CALLER = Symbol('caller');

type Authenticated = Request & { [CALLER]?: Caller };

export function setCaller(req: Request, caller: Caller): void {
  (req as Authenticated)[CALLER] = caller;
}

/** Who makes the request. For handlers that come after `require`; throws in any other, as that is a mistake of ours. */
export function callerOf(req: Request): Caller {
  const caller = (req as Authenticated)[CALLER];
  if (!caller) throw new Error('callerOf was asked in a route that requires no authentication');
  return caller;
}

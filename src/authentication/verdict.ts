import type { Caller } from '../caller.ts';

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
  /** `stale` is no failure: only the nonce is too old. */
  reason: FailureReason | 'stale';
  /** Tells the caller what to change, where that does not tell a stranger who exists. */
  advice?: string;
  /** The client that was named, if it has a secret. The token of a client without one is a credential, and so is a guess. */
  client?: string;
  /** All is right but the nonce: RFC 7616 lets a client try again with a new one, without asking a person. */
  stale?: boolean;
};

export type Verdict = Caller | Refusal;

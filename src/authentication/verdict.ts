import type { Caller } from '../routing/caller.ts';

export type FailureReason =
  | 'unknown_scheme'
  | 'malformed'
  | 'unknown_user'
  | 'wrong_secret'
  | 'no_secret'
  | 'wrong_terms'
  | 'repeated_count';

export type Refusal = {
  /** `stale` means that only the nonce is too old, which does not count as a failure. */
  reason: FailureReason | 'stale';
  /** Text that tells the caller what to change. It must not reveal which clients exist. */
  advice?: string;
  /**
   * The user, for the log. Absent if no user with a secret has this name, because the name may then be a credential.
   */
  client?: string;
  /** True if the secret is right, but the nonce is old or was used before. A new nonce may be tried (RFC 7616). */
  stale?: boolean;
};

export type Verdict = Caller | Refusal;

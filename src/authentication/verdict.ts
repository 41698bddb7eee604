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
  /**
   * `stale`: the secret is right, but the nonce is not valid any more. The bus does not count this as a failed
   * authentication.
   */
  reason: FailureReason | 'stale';
  /** Text that tells the caller what to change. It must not reveal which clients exist. */
  advice?: string;
  /**
   * The user name in the request, for the log: `root`, `viewer` or a client with a secret. Absent for any other name,
   * which may be a credential.
   */
  client?: string;
  /**
   * True if the secret is right, but the nonce is not valid any more, or was used before with this count (`nc`). The
   * caller may try a new nonce (RFC 7616).
   */
  stale?: boolean;
};

export type Verdict = Caller | Refusal;

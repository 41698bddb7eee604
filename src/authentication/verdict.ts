import type { Caller } from '../routing/caller.ts';

/** Reasons why an authentication failed, for the log and the figures. */
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
   * Why the credentials were refused. `stale` means that they are correct, but their nonce is too old. A stale nonce is
   * not counted as a failure.
   */
  reason: FailureReason | 'stale';
  /** Text for the caller on what to change. It must not reveal which clients exist. */
  advice?: string;
  /** The client's token, for the log. Absent for a client without a secret, because its token is a credential. */
  client?: string;
  /**
   * True if only the nonce is wrong: it is too old, or was used before with the same `nc`. The client may then try
   * again with a new nonce (RFC 7616).
   */
  stale?: boolean;
};

export type Verdict = Caller | Refusal;

/** The role of a caller. A viewer sees what root sees, and may change nothing. */
export type Role = 'client' | 'root' | 'viewer';

/**
 * Topic patterns that limit what a client may publish, and to what it may subscribe. Undefined allows any topic; an
 * empty list allows none.
 */
export interface Scopes {
  publish?: readonly string[];
  subscribe?: readonly string[];
}

/** An authenticated client. `scopes` is undefined if the client is not limited. */
export interface ClientCaller {
  role: 'client';
  token: string;
  name: string;
  scopes?: Scopes;
}

export type Caller = { role: 'root' } | { role: 'viewer' } | ClientCaller;

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

/** A caller that may change something. */
export type ChangingCaller = { role: 'root' } | ClientCaller;

export type Caller = ChangingCaller | { role: 'viewer' };

/** Returns the client's token if the caller is a client, and otherwise undefined. */
export function clientOf(caller: Caller | undefined): string | undefined {
  return caller?.role === 'client' ? caller.token : undefined;
}

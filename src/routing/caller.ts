/** The role of a caller. A viewer sees what root sees, but can change nothing. */
export type Role = 'client' | 'root' | 'viewer';

/**
 * Patterns of the topics to which a client may publish and subscribe. A missing list allows every topic, and an empty
 * list none.
 */
export interface Scopes {
  publish?: readonly string[] | undefined;
  subscribe?: readonly string[] | undefined;
}

/** An authenticated client. `scopes` is undefined if the client is not limited. */
export interface ClientCaller {
  role: 'client';
  token: string;
  name: string;
  scopes?: Scopes;
}

export type ChangingCaller = { role: 'root' } | ClientCaller;

export type Caller = ChangingCaller | { role: 'viewer' };

/** Returns the token of a caller that is a client, and otherwise undefined. */
export function clientOf(caller: Caller | undefined): string | undefined {
  return caller?.role === 'client' ? caller.token : undefined;
}

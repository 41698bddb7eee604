export type Role = 'client' | 'root';

/**
 * The topics that a client may publish and subscribe to. A member left out allows any topic; an empty one
 * allows none.
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

export type Caller = { role: 'root' } | ClientCaller;

export type Role = 'client' | 'root';

/** What a client may do: the topics it may publish to, and subscribe to. Left out: any. Empty: none. */
export interface Scopes {
  publish?: readonly string[];
  subscribe?: readonly string[];
}

/** The client that makes a request, proved. `scopes`: if it is limited. */
export interface ClientCaller {
  role: 'client';
  token: string;
  name: string;
  scopes?: Scopes;
}

/** Who makes a request, proved. */
export type Caller = { role: 'root' } | ClientCaller;

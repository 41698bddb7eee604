import type { ErrorCode } from '../errors.ts';

/**
 * The rules by which the bus answers its callers. DIALECTS has the rules with and without compatibility mode;
 * docs/migrating.md explains the differences.
 */
export interface Dialect {
  /** The status of an accepted publish. */
  published: 200 | 204;
  /** Status of a redirect from http to https: `reads` for GET and HEAD, `others` for the rest. */
  redirected: { reads: 301 | 308; others: 307 | 308 };
  /** Error for a caller whose credentials are correct, but whose role may not make the call. */
  wrongRole: ErrorCode & ('forbidden' | 'unauthenticated');
  /** Error for a request to a path of the API with a method that this path does not have. */
  otherMethod: ErrorCode & ('method_not_allowed' | 'not_found');
  /** True if a new client that chooses no token gets a secret. The request for the new client can override this. */
  makesSecrets: boolean;
  /**
   * True if calls that the Ruby Routemaster has too ignore unknown query parameters (see routing/query.ts). If false,
   * they refuse them, as all other calls do.
   */
  ignoresUnknownParameters: boolean;
  /** True if `GET /subscriptions` shows a client all subscribers. If false, it shows only the client itself. */
  listsOthers: boolean;
  /** True if a subscriber's `max` (events per batch) above 10,000 is lowered to 10,000. If false, it is refused. */
  cutsMax: boolean;
  events: EventDialect;
}

/** Rules for the fields of an event. */
export interface EventDialect {
  maxUrlLength: number;
  /** True if unknown fields of an event are dropped. If false, an event with unknown fields is refused. */
  ignoresUnknownFields: boolean;
  /** True if a timestamp may also be a string of digits, have a fraction, or be false (which means no timestamp). */
  loosensTimestamps: boolean;
}

export const DIALECTS = {
  none: {
    published: 204,
    redirected: { reads: 308, others: 308 },
    wrongRole: 'forbidden',
    otherMethod: 'method_not_allowed',
    makesSecrets: true,
    ignoresUnknownParameters: false,
    listsOthers: false,
    cutsMax: false,
    events: { maxUrlLength: 1024, ignoresUnknownFields: false, loosensTimestamps: false },
  },
  /** Compatibility mode: the bus answers as the Ruby Routemaster did, because its clients expect such answers. */
  routemaster: {
    published: 200,
    redirected: { reads: 301, others: 307 },
    wrongRole: 'unauthenticated',
    otherMethod: 'not_found',
    makesSecrets: false,
    ignoresUnknownParameters: true,
    listsOthers: true,
    cutsMax: true,
    // The Ruby Routemaster had no maximum length of URLs, so URLs may be longer here than without compatibility mode.
    events: { maxUrlLength: 8192, ignoresUnknownFields: true, loosensTimestamps: true },
  },
} as const satisfies Record<string, Dialect>;

export type Compatibility = keyof typeof DIALECTS;

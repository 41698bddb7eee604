import type { ErrorCode } from '../errors.ts';

/** The rules by which the bus answers its callers. docs/migrating.md explains the rules of the compatibility mode. */
export interface Dialect {
  /** The status of an accepted publish. */
  published: 200 | 204;
  /** Status of a redirect from http to https: `reads` for GET and HEAD, `others` for other methods. */
  redirected: { reads: 301 | 308; others: 307 | 308 };
  /** Error if the credentials are correct, but the caller's role may not make the call. */
  wrongRole: ErrorCode & ('forbidden' | 'unauthenticated');
  /** Error for a method that a path of the API does not have. */
  otherMethod: ErrorCode & ('method_not_allowed' | 'not_found');
  /** True if a new client gets a secret when its request has neither a `token` nor the field `secret`. */
  makesSecrets: boolean;
  /** True if unknown fields of a new client are ignored. Otherwise a client with such fields is refused. */
  ignoresUnknownClientFields: boolean;
  /**
   * True if calls that also exist in the Ruby Routemaster ignore unknown query parameters (see routing/query.ts). All
   * other calls refuse unknown parameters.
   */
  ignoresUnknownParameters: boolean;
  /** True if `GET /subscriptions` shows a client all subscribers. Otherwise it shows a client only itself. */
  listsOthers: boolean;
  /** True if a `max` (events per batch) above 10,000 is lowered to 10,000. Otherwise it is refused. */
  cutsMax: boolean;
  events: EventDialect;
}

export interface EventDialect {
  maxUrlLength: number;
  /** True if unknown fields of an event are dropped. Otherwise an event with such fields is refused. */
  ignoresUnknownFields: boolean;
  /** True if a timestamp may also be a string of digits, a number with a fraction, or false (no timestamp). */
  loosensTimestamps: boolean;
}

export const DIALECTS = {
  none: {
    published: 204,
    redirected: { reads: 308, others: 308 },
    wrongRole: 'forbidden',
    otherMethod: 'method_not_allowed',
    makesSecrets: true,
    ignoresUnknownClientFields: false,
    ignoresUnknownParameters: false,
    listsOthers: false,
    cutsMax: false,
    events: { maxUrlLength: 1024, ignoresUnknownFields: false, loosensTimestamps: false },
  },
  /** Compatibility mode: the bus answers as the Ruby Routemaster did. */
  routemaster: {
    published: 200,
    redirected: { reads: 301, others: 307 },
    wrongRole: 'unauthenticated',
    otherMethod: 'not_found',
    makesSecrets: false,
    ignoresUnknownClientFields: true,
    ignoresUnknownParameters: true,
    listsOthers: true,
    cutsMax: true,
    // The Ruby Routemaster did not limit the length of URLs, so this mode accepts longer URLs than the usual 1024.
    events: { maxUrlLength: 8192, ignoresUnknownFields: true, loosensTimestamps: true },
  },
} as const satisfies Record<string, Dialect>;

export type Compatibility = keyof typeof DIALECTS;

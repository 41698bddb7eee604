import type { ErrorCode } from './errors.ts';

/**
 * How the bus speaks to its callers. This table is the one place that says what differs in compatibility mode;
 * docs/migrating.md explains it.
 */
export interface Dialect {
  /** The status of an accepted publish. */
  published: 200 | 204;
  /** The status of a redirect from http to https, of reads and of all other requests. */
  redirected: { reads: 301 | 308; others: 307 | 308 };
  /** What right credentials get for a call that is not for their role. */
  wrongRole: ErrorCode & ('forbidden' | 'unauthenticated');
  /** What a method gets that its path does not take. */
  otherMethod: ErrorCode & ('method_not_allowed' | 'not_found');
  /** Whether a client that is made by its name has a secret, unless the request says otherwise. */
  makesSecrets: boolean;
  /** Whether a client sees all subscribers in `GET /subscriptions`, or itself alone. */
  listsOthers: boolean;
  /** Whether a `max` above the maximum is cut, or refused. */
  cutsMax: boolean;
  events: EventDialect;
}

/** What may be in an event. */
export interface EventDialect {
  maxUrlLength: number;
  /** Whether unknown fields are left out, or refused. */
  ignoresUnknownFields: boolean;
  /** Whether timestamps may be false (for none), digits in a text, or fractions of a millisecond. */
  loosensTimestamps: boolean;
}

export const DIALECTS = {
  none: {
    published: 204,
    redirected: { reads: 308, others: 308 },
    wrongRole: 'forbidden',
    otherMethod: 'method_not_allowed',
    makesSecrets: true,
    listsOthers: false,
    cutsMax: false,
    events: { maxUrlLength: 1024, ignoresUnknownFields: false, loosensTimestamps: false },
  },
  /** As the Ruby Routemaster, whose clients know nothing else. */
  routemaster: {
    published: 200,
    redirected: { reads: 301, others: 307 },
    wrongRole: 'unauthenticated',
    otherMethod: 'not_found',
    makesSecrets: false,
    listsOthers: true,
    cutsMax: true,
    // Ruby had no maximum.
    events: { maxUrlLength: 8192, ignoresUnknownFields: true, loosensTimestamps: true },
  },
} as const satisfies Record<string, Dialect>;

export type Compatibility = keyof typeof DIALECTS;

/**
 * The base class of all errors of this package. `code` is the code in the bus's problem document, or a code of this
 * package, such as `no_connection`.
 */
export class RoutemasterError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/**
 * A problem document (RFC 9457) of the bus. If an answer has no such document, one is made from its status and text.
 */
export interface Problem {
  code: string;
  status: number;
  title: string;
  /** Says what the caller should change. */
  detail: string;
  /** Further members, such as `index` and `field` of an event that was refused. */
  members: Record<string, unknown>;
  /** How long the bus asks the caller to wait before the next attempt. */
  retryAfterMs?: number | undefined;
}

/**
 * Thrown if the bus answers with an error. Each code that this release knows has a subclass. An answer without a
 * problem document, such as that of a router in front of the bus, gets a code such as `http_502`.
 */
export class ProblemError extends RoutemasterError implements Problem {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly members: Record<string, unknown>;
  readonly retryAfterMs: number | undefined;

  constructor({ code, status, title, detail, members, retryAfterMs }: Problem) {
    super(code, detail);
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.members = members;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The base class of the errors whose code this release knows. */
export class KnownProblem<Code extends string> extends ProblemError {
  declare readonly code: Code;
}

interface ConnectionFailure {
  isTransient: boolean;
  mayBeDone: boolean;
  cause: unknown;
}

/**
 * Thrown if there is no answer: a connection could not be made, it ended before the answer, or the answer did not come
 * in time. Also thrown if the next page of a listing is on another server.
 */
export class ConnectionError extends RoutemasterError {
  /** True if another attempt may succeed. False, for example, if the certificate is not trusted. */
  readonly isTransient: boolean;
  /** True if the request may have reached the bus. */
  readonly mayBeDone: boolean;

  constructor(message: string, { isTransient, mayBeDone, cause }: ConnectionFailure) {
    super('no_connection', message, { cause });
    this.isTransient = isTransient;
    this.mayBeDone = mayBeDone;
  }
}

/**
 * Thrown if a call has not succeeded within its time limit. `cause` is the error of its last failed attempt, if an
 * attempt has failed.
 */
export class TimeLimitError extends RoutemasterError {
  /** True if the bus may have done the call, although no answer said so. */
  readonly mayBeDone: boolean;

  constructor(timeoutMs: number, { mayBeDone, cause }: { mayBeDone: boolean; cause: unknown }) {
    const why = cause instanceof Error ? `; the last attempt failed: ${cause.message}` : '';
    const what = mayBeDone ? 'not known to be done' : 'not done';
    super('time_limit', `${what} within ${timeoutMs} ms${why}`, { cause });
    this.mayBeDone = mayBeDone;
  }
}

/** Thrown by calls of a `Routemaster` object that is closed. */
export class ClosedError extends RoutemasterError {
  constructor() {
    super('closed', 'this client is closed');
  }
}

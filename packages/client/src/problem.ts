/** The base of this package's errors. `code` is that of the bus's problem document, or one of the package's own. */
export class RoutemasterError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** A problem document (RFC 9457) of the bus, or a substitute made from an answer without one. */
export interface Problem {
  code: string;
  status: number;
  title: string;
  /** Tells the caller what to change. */
  detail: string;
  /** Further members, such as `index` and `field` of an event that was refused. */
  members: Record<string, unknown>;
  /** How long the bus asks to wait before the next attempt, if it does. */
  retryAfterMs?: number | undefined;
}

/**
 * The bus answered with an error. Each code that this release knows has a class of its own. An answer without a
 * problem document, such as that of a router, has a code such as `http_502`.
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

interface ConnectionFailure {
  isTransient: boolean;
  mayBeDone: boolean;
  cause: unknown;
}

/** There was no answer: no connection, or it ended before the answer, or nothing came in time. */
export class ConnectionError extends RoutemasterError {
  /** False if another attempt would fail as well, such as where the certificate is not trusted. */
  readonly isTransient: boolean;
  /** False if the request cannot have reached the bus. */
  readonly mayBeDone: boolean;

  constructor(message: string, { isTransient, mayBeDone, cause }: ConnectionFailure) {
    super('no_connection', message, { cause });
    this.isTransient = isTransient;
    this.mayBeDone = mayBeDone;
  }
}

/** The time limit of a call ended before it succeeded. `cause` is the last failure, if an attempt failed. */
export class TimeLimitError extends RoutemasterError {
  /** False if the bus has certainly not done what was asked. */
  readonly mayBeDone: boolean;

  constructor(timeoutMs: number, { mayBeDone, cause }: { mayBeDone: boolean; cause: unknown }) {
    const why = cause instanceof Error ? `; the last attempt failed: ${cause.message}` : '';
    super('time_limit', `not done within ${timeoutMs} ms${why}`, { cause });
    this.mayBeDone = mayBeDone;
  }
}

/** The client was closed before the call. */
export class ClosedError extends RoutemasterError {
  constructor() {
    super('closed', 'this client is closed');
  }
}

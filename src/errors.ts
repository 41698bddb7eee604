/** All errors of the API: for each code, the HTTP status and the title. A test compares them with docs/api.md. */
export const ERRORS = {
  bad_body: { status: 400, title: 'The body cannot be read' },
  bad_callback: { status: 400, title: 'The callback is not acceptable' },
  bad_client: { status: 400, title: 'The client that the request is about is not acceptable' },
  bad_event: { status: 400, title: 'The event is not acceptable' },
  bad_header: { status: 400, title: 'A header is not acceptable' },
  bad_join: { status: 400, title: 'The join is not acceptable' },
  bad_query: { status: 400, title: 'The query is not acceptable' },
  bad_subscription: { status: 400, title: 'The subscription is not acceptable' },
  bad_topic: { status: 400, title: 'The topic name is not acceptable' },
  bad_trigger: { status: 400, title: 'The trigger is not acceptable' },
  unauthenticated: { status: 401, title: 'Authentication is required' },
  forbidden: { status: 403, title: 'This is not allowed' },
  topic_claimed: { status: 403, title: 'Another client publishes to this topic' },
  not_found: { status: 404, title: 'There is nothing here' },
  subscriber_not_found: { status: 404, title: 'There is no such subscriber' },
  client_not_found: { status: 404, title: 'There is no such client' },
  topic_not_found: { status: 404, title: 'There is no such topic' },
  delayed_event_not_found: { status: 404, title: 'There is no such delayed event' },
  trigger_not_found: { status: 404, title: 'There is no such trigger' },
  delivery_not_found: { status: 404, title: 'There is no such delivery' },
  dead_letter_not_found: { status: 404, title: 'There is no such dead letter' },
  job_not_found: { status: 404, title: 'There is no such job' },
  join_not_found: { status: 404, title: 'There is no such join' },
  not_subscribed: { status: 404, title: 'The subscriber is not subscribed to this topic' },
  method_not_allowed: { status: 405, title: 'The method is not allowed here' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  delivery_not_waiting: { status: 409, title: 'The batch is not waiting for its next delivery' },
  job_not_scheduled: { status: 409, title: 'The job is not scheduled' },
  paused_by_operator: { status: 409, title: 'An operator paused this subscriber' },
  already_delayed: { status: 409, title: 'An event with this id is already delayed' },
  client_has_secret: { status: 409, title: 'A client with a secret has this token' },
  limit_reached: {
    status: 409,
    title: 'There is no room for another topic, subscriber, join, trigger or delayed event',
  },
  body_too_large: { status: 413, title: 'The body is too large' },
  unsupported_encoding: { status: 415, title: 'The body is encoded in a way that is not supported' },
  idempotency_key_reused: { status: 422, title: 'The idempotency key was used for another request' },
  too_many_failures: { status: 429, title: 'Too many requests had wrong credentials' },
  too_many_keys: { status: 429, title: 'This client uses too many idempotency keys' },
  too_many_nonces: { status: 429, title: 'This client uses too many Digest nonces' },
  rate_limited: { status: 429, title: 'There are too many requests' },
  headers_too_large: { status: 431, title: 'The headers are too large' },
  internal: { status: 500, title: 'The bus failed to do this' },
  unsupported_transfer_coding: { status: 501, title: 'The transfer coding is not understood' },
  overloaded: { status: 503, title: 'The bus has too much to do' },
  storage_full: { status: 503, title: 'The storage is full' },
  storage_unavailable: { status: 503, title: 'The storage cannot be reached' },
} as const;

export type ErrorCode = keyof typeof ERRORS;

interface ErrorOptions {
  cause?: unknown;
  /** JSON members of the error answer besides the standard ones, such as `index` and `field` of a bad event. */
  members?: Record<string, string | number>;
  headers?: Record<string, string | string[]>;
  /**
   * How many calls the answer costs in the caller's rate limit, in addition to the one for the request (see
   * CallLimits).
   */
  priceInCalls?: number;
}

/**
 * An error that is answered to the caller as `application/problem+json` (RFC 9457). Its `cause` is the error inside the
 * bus that has led to it, if there is one. It has no stack trace: making one for each refused call would cost 6 µs.
 */
export class BusError extends Error {
  readonly code: ErrorCode;
  readonly members: Record<string, string | number>;
  readonly headers: Record<string, string | string[]>;
  readonly priceInCalls: number | undefined;

  /** `detail` is sent to the caller. It says what to change, and contains no secret. */
  constructor(code: ErrorCode, detail: string, options: ErrorOptions = {}) {
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0;
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    Error.stackTraceLimit = limit;
    this.name = 'BusError';
    this.code = code;
    this.members = options.members ?? {};
    this.headers = options.headers ?? {};
    this.priceInCalls = options.priceInCalls;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }
}

export const NO_SUBSCRIBER = 'there is no such subscriber';

export function subscriberNotFound(): BusError {
  return new BusError('subscriber_not_found', NO_SUBSCRIBER);
}

/**
 * Thrown if Redis is away, or has too few replicas that confirm a write. Redis may have applied the write all the same.
 */
export class StorageUnavailable extends BusError {
  /** The Redis that failed, as the log shows it: on a cluster its address, elsewhere a name such as `partition 1`. */
  readonly redis: string;
  /** The failure as the log describes it: the message without its advice to the caller. */
  readonly why: string;

  constructor(cause: unknown, why = 'Redis is away', redis = 'Redis') {
    const detail =
      `${why}, so it is unknown whether anything was stored. ` +
      'Try again in a moment: a publish repeated with its Idempotency-Key is stored once.';
    super('storage_unavailable', detail, { cause, headers: { 'Retry-After': '1' } });
    this.name = 'StorageUnavailable';
    this.redis = redis;
    this.why = why;
  }

  /** Returns the error for a call that only reads. This error says that nothing was changed. */
  ofRead(): BusError {
    const detail = `${this.why}. Nothing was changed; try again in a moment.`;
    return new BusError(this.code, detail, { cause: this, headers: { 'Retry-After': '1' } });
  }
}

/** Thrown while Redis has lost the data of the bus. Waiting does not help: an operator must act. */
export class StorageLost extends StorageUnavailable {
  /** `redis` names the Redis that has lost its data, if this is known. */
  constructor(redis?: string) {
    super(undefined, 'Redis has lost the data of the bus', redis);
    this.name = 'StorageLost';
  }
}

/**
 * How an operator finds the command that Redis forbids (StorageForbidden). The error itself may not name the command:
 * Redis 7.0 leaves out the name if a script called the command.
 */
export const ACL_ADVICE = 'its command ACL LOG names the command, and docs/operating.md has the ACL';

/**
 * Thrown if the ACL of Redis does not let the bus run a command. Redis may have applied a part of the call. The bus
 * tries again, as it does while Redis is away, because an operator can give the permission back.
 */
export class StorageForbidden extends StorageUnavailable {
  constructor(cause: Error, redis: string, address: string) {
    super(cause, `${redis} refuses commands (NOPERM)`, address);
  }
}

const MEMORY_SHORT = 'Redis has too little memory left';

/**
 * Thrown if nothing was stored, because Redis is at `maxmemory`, or stores more than the bus permits (its high mark).
 */
export class StorageFull extends BusError {
  /** The Redis that is full, as the log shows it: on a cluster its address, elsewhere `Redis`. */
  readonly redis: string;
  readonly why = MEMORY_SHORT;

  constructor(cause?: unknown, redis = 'Redis') {
    const detail = `${MEMORY_SHORT}, and nothing was stored. The oldest batches are dropped if that helps. Try again.`;
    super('storage_full', detail, { cause, headers: { 'Retry-After': '2' } });
    this.name = 'StorageFull';
    this.redis = redis;
  }
}

/**
 * True if the error says that Redis is away or full, or has lost its data. The same call may succeed later. A caller
 * that catches such an error need not log it, because other code logs the state of Redis.
 */
export function isPassing(error: unknown): boolean {
  if (error instanceof StorageFull) return true;
  return error instanceof StorageUnavailable && !(error instanceof StorageForbidden);
}

/** Ignores an error that says that Redis is full, and throws any other. */
export function ignoreFull(error: unknown): void {
  if (!(error instanceof StorageFull)) throw error;
}

/** Ignores an error that says that Redis is away, and throws any other. */
export function ignoreUnavailable(error: unknown): undefined {
  if (!(error instanceof StorageUnavailable)) throw error;
}

/** Thrown if the process cannot start, or go on, with this configuration or Redis. `message` says what to change. */
export class BootError extends Error {
  /** The exit code for a wrong configuration: `EX_CONFIG` of sysexits.h. */
  static readonly EXIT_CODE = 78;
  /** The exit code for a cause that may pass without a change: `EX_TEMPFAIL` of sysexits.h. */
  static readonly MAY_PASS_EXIT_CODE = 75;

  readonly exitCode: number;

  /** `mayPass` says that the same start may succeed later, so whatever runs the process should start it again. */
  constructor(message: string, { mayPass = false, ...options }: { cause?: unknown; mayPass?: boolean } = {}) {
    super(message, options);
    this.name = 'BootError';
    this.exitCode = mayPass ? BootError.MAY_PASS_EXIT_CODE : BootError.EXIT_CODE;
  }

  /** True if a process that ended with `code` ended with a BootError. */
  static isExitCode(code: number | null | undefined): code is number {
    return code === BootError.EXIT_CODE || code === BootError.MAY_PASS_EXIT_CODE;
  }
}

/**
 * Returns the error reply of Redis that led to this error. Undefined if no reply did, for example after a lost
 * connection.
 */
export function replyBehind(error: unknown): Error | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && cause.name === 'ReplyError' ? cause : undefined;
}

/** True if Redis refuses the user or password of a connection. Only a person can mend this. */
export function isRefusal({ message }: Error): boolean {
  return /^(?:WRONGPASS|NOAUTH)/.test(message);
}

/** Returns what the log says of a connection to Redis that fails with this error. */
export function connectionFailure(error: Error): string {
  const what = isRefusal(error)
    ? 'Redis refuses the user or password of ROUTEMASTER_REDIS_URL'
    : 'Redis is away';
  return `${what}; trying again`;
}

/**
 * Returns the message of an error in a form that people can read. Node's error for a host with several addresses has no
 * message, but contains an error for each address: returns their messages. The message of an OpenSSL error also has a
 * memory address, a source file and a line break, so only its reason is returned.
 */
export function messageOf(error: Error): string {
  if ('library' in error && 'reason' in error) return `${error.library}: ${error.reason}`;
  if (error.message !== '' || !(error instanceof AggregateError)) return error.message;
  return error.errors.map(({ message }: Error) => message).join('; ');
}

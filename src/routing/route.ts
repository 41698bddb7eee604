import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { z } from 'zod';
import type { BusError, ErrorCode } from '../errors.ts';
import type { Action } from './actions.ts';
import type { Caller, Role } from './caller.ts';

/** Maximum bytes in the body of a publish: enough for a thousand events with 5 KB of data each. */
export const MAX_PUBLISH_BYTES = 5 * 1024 * 1024;
/** Maximum bytes in the body of any request except a publish, unless its route sets `maxBodyBytes`. */
export const MAX_BODY_BYTES = 128 * 1024;

/** The roles that may call a route. A route for ANYONE needs no credentials. */
export const ANYONE = [] as const;
export const CLIENTS = ['client'] as const;
export const ROOT = ['root'] as const;
export const BOTH = ['client', 'root'] as const;
/** The roles that may call a route which shows the whole bus. */
export const WATCHERS = ['root', 'viewer'] as const;
export const ALL = ['client', ...WATCHERS] as const;

/**
 * What an error answer (RFC 9457) says if an input does not match its schema. `code` is its error code. `field` returns
 * the text for a field that breaks a rule, and `unknown` the text for an unknown field. All other errors have the text
 * `whole`.
 */
export interface Wording {
  code: ErrorCode | ((field: string) => ErrorCode);
  whole: string;
  field?: (name: string, rule: string) => string;
  unknown?: (name: string) => string;
}

export interface Input<T> {
  schema: z.ZodType<T>;
  wording: Wording;
}

/** A request that is authenticated and whose inputs are checked. */
export interface Call<R extends Role = Role, Params = unknown, Query = unknown, Body = unknown> {
  caller: Extract<Caller, { role: R }>;
  path: string;
  params: Params;
  query: Query;
  body: Body;
  /** The text of the body, or an empty text if the route takes none. */
  text: string;
  headers: IncomingHttpHeaders;
  request: IncomingMessage;
  /** True if reading and checking the body took so long that earlier checks may be out of date. */
  isLate?: boolean;
  /**
   * Checks again whether the credentials of the request are still valid or, for a page of the console, its session.
   * Resolves with the caller and its current scopes. `from` says where the credentials are read; a session is always
   * read from Redis. Throws unauthenticated or StorageUnavailable.
   */
  judgeAgain(from: 'redis' | 'cache'): Promise<Caller>;
  /**
   * The secret text that a form must send back, so that no page of another site can send the form. The text is empty if
   * there is no session.
   */
  formToken: string;
  /**
   * Tells the audit what a call changes, if its path and query do not show it, as with forms. `name` is the name of the
   * changed thing, or a description of the change. `client` is the token of the client that the change concerns.
   */
  about?: (name: string | undefined, client?: string | undefined) => void;
  /** Tells the audit how many subscriptions of clients the call has ended. */
  endedSubscriptions?: ((count: number) => void) | undefined;
}

/**
 * The answer to a call. A body of text or bytes is sent unchanged, and `headers` must name its type. The pieces of a
 * body in pieces are JSON text, and are sent unchanged too. Any other body is converted to JSON.
 */
export interface Answer {
  status: number;
  headers?: Record<string, string> | undefined;
  /**
   * How many calls this answer costs in the client's rate limit. CallLimits adds a cost for the length of the answer.
   */
  priceInCalls?: number | undefined;
  /** The answer is sent after this time. Meanwhile other calls of the caller are handled. */
  delayMs?: number;
  /** The code of the error, for the audit, if the body is a page that shows an error to a person. */
  code?: ErrorCode | undefined;
  body?: unknown;
}

/** What a route is told about a failed call, to make its error page. */
export interface FailedCall extends Pick<Call, 'headers' | 'formToken'> {
  caller: Caller | undefined;
  method: string | undefined;
  /** The path with the query. */
  url: string;
}

/** The schema of the body for each status. Null stands for no body. */
type Answers = Record<number, z.ZodType | null>;

/**
 * Makes the compiler demand `priceInCalls` (see Answer) for every answer that is a list. Otherwise a route could forget
 * the cost of entries that it reads but does not show.
 */
type Cost<Schema> = Schema extends z.ZodArray
  ? { priceInCalls: number }
  : { priceInCalls?: number | undefined };

type AnswerTo<A extends Answers> = {
  [Status in keyof A]: {
    status: Status;
    headers?: Record<string, string> | undefined;
    delayMs?: number;
  } & Cost<A[Status]> &
    (A[Status] extends z.ZodType<infer Body>
      ? { body: Body | AsyncIterable<string> | Buffer }
      : { body?: undefined });
}[keyof A];

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

interface Row<R extends Role, Params, Query, Body, A extends Answers> {
  /** True for a health check. It is answered over plain http too, and also while Redis is not ready. */
  isHealthCheck?: true;
  params?: Input<Params>;
  /** The schema of the query parameters, made by the function `parameters` (routing/query.ts). */
  query?: Input<Query>;
  /** The schema of the JSON body. The body may be empty if this schema allows undefined. */
  body?: Input<Body>;
  /** Maximum bytes in the body, if it is not MAX_BODY_BYTES. */
  maxBodyBytes?: number;
  /** True if the handler gets the body as text and parses it itself. */
  takesText?: true;
  /** The schema of the text of the body, for the documentation only. It does not check the text. */
  textSchema?: z.ZodType;
  /**
   * True for a route that answers everybody in the same way, and checks no credentials. Each request counts against the
   * rate limit of its IP address. A page of another site may link to this route. But a request by a script or an image
   * on such a page is refused, because it could be an attack.
   */
  isPublic?: true;
  /**
   * Makes the page that shows an error. Only the pages of the console have this function: their callers are people in a
   * browser, with a session instead of credentials.
   */
  page?: (error: BusError, call: FailedCall) => Answer;
  /** The schema of a form's fields, without `form_token`, which has already been checked. */
  form?: Input<Body>;
  answers: A;
  /**
   * The name under which the audit records the call. Every route that changes something has such a name, except
   * publishing, login and logout.
   */
  action?: Action;
  /** The codes of errors that this route can cause, besides the errors that every route can cause. */
  errors?: readonly ErrorCode[];
  /**
   * Called before the body is read, and again if reading the body took long (`isLate`). Throws if the call can be
   * refused without its body.
   */
  refuseEarly?(call: Omit<Call<R, Params, Query>, 'body' | 'text'>): unknown;
  /**
   * Makes checks that need the body and may take a while, such as resolving a host name. Throws if the call must be
   * refused. Afterwards the credentials are checked again, because the client may have been removed meanwhile.
   */
  refuseLate?(call: Call<R, Params, Query, Body>): Promise<unknown>;
  /**
   * True for publishing, which is exempt from the limits of CallLimits. Before any other call that changes something is
   * handled, its credentials are checked again with Redis. This would take too long for each publish. So the handler of
   * a publish checks them again only if the body was long or came slowly (`isLate`), and asks a cache.
   */
  isFrequent?: true;
  handle(call: Call<R, Params, Query, Body>): Promise<AnswerTo<A>>;
}

export interface Route extends Row<Role, unknown, unknown, unknown, Answers> {
  method: Method;
  path: string;
  /** The roles that may make the call. Anybody may if the list is empty. */
  roles: readonly Role[];
  /**
   * True for the route of requests that match no other route. No credentials are checked, so each request counts
   * against the rate limit of its IP address.
   */
  isUnknown?: true;
}

/** Makes a row of the route table. The compiler checks the handler against the schemas. */
export function route<const R extends Role, Params, Query, Body, const A extends Answers>(
  call: `${Method} /${string}`,
  roles: readonly R[],
  row: Row<R, Params, Query, Body, A>,
): Route {
  const [method, path] = call.split(' ') as [Method, string];
  return { ...(row as unknown as Row<Role, unknown, unknown, unknown, Answers>), method, path, roles };
}

export const NOTHING = { 204: null } as const;

export const NO_CONTENT = { status: 204 } as const;

export function ok<Body>(body: Body): { status: 200; body: Body } {
  return { status: 200, body };
}

import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { z } from 'zod';
import type { Caller, Role } from './caller.ts';
import type { BusError, ErrorCode } from './errors.ts';

/** Maximum length of the body of a publish: a thousand events with 5 KB of data each. */
export const MAX_PUBLISH_BYTES = 5 * 1024 * 1024;
/** Maximum length of other bodies, unless their route says otherwise. */
export const MAX_BODY_BYTES = 128 * 1024;

/** Who may call a route. */
export const ANYONE = [] as const;
export const CLIENTS = ['client'] as const;
export const ROOT = ['root'] as const;
export const BOTH = ['client', 'root'] as const;
/** Who may call a route that shows the whole bus. Viewers may call all that root may call and that changes nothing. */
export const WATCHERS = ['root', 'viewer'] as const;
export const ALL = ['client', ...WATCHERS] as const;

/** Text and code of the error answer (RFC 9457) to input that does not match its schema. */
export interface Wording {
  code: ErrorCode | ((field: string) => ErrorCode);
  whole: string;
  /** The detail if one field is wrong. If absent, the detail is `whole`, and the answer names no field. */
  field?: (name: string, rule: string) => string;
  unknown?: (name: string) => string;
}

export interface Input<T> {
  schema: z.ZodType<T>;
  wording: Wording;
}

/** An authenticated request with checked inputs. */
export interface Call<R extends Role = Role, Params = unknown, Query = unknown, Body = unknown> {
  caller: Extract<Caller, { role: R }>;
  path: string;
  params: Params;
  query: Query;
  body: Body;
  /** The body as received, if the route takes text; otherwise empty. */
  text: string;
  headers: IncomingHttpHeaders;
  /** The request itself, for handlers that need its address. */
  request: IncomingMessage;
  /** The token that forms must contain; empty if the route is no page, or if nobody is logged in. */
  formToken: string;
}

/**
 * An answer to a call. A body of text, whole or in pieces, or of bytes is sent unchanged, and `headers` must
 * name its type. Any other body is sent as JSON.
 */
export interface Answer {
  status: number;
  headers?: Record<string, string> | undefined;
  /**
   * Number of additional calls that the client is charged for, in its rate limit (CallLimits), because making the answer was
   * costly. The length of the answer is charged apart from this.
   */
  calls?: number | undefined;
  body?: unknown;
}

/** A failed call of a page. */
export interface PageCall {
  caller: Caller | undefined;
  path: string;
  headers: IncomingHttpHeaders;
}

/** The schema of the body for each status; null means no body. */
type Answers = Record<number, z.ZodType | null>;

type AnswerTo<A extends Answers> = {
  [Status in keyof A]: {
    status: Status;
    headers?: Record<string, string> | undefined;
    calls?: number | undefined;
  } & (A[Status] extends z.ZodType<infer Body>
    ? { body: Body | AsyncIterable<string> | Buffer }
    : { body?: undefined });
}[keyof A];

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

interface Row<R extends Role, Params, Query, Body, A extends Answers> {
  /** Served over plain http too, and while Redis is not ready. */
  isHealthCheck?: true;
  params?: Input<Params>;
  query?: Input<Query>;
  /** The JSON body. An empty body is undefined if the schema allows that. */
  body?: Input<Body>;
  /** Maximum length of the body, if it is not MAX_BODY_BYTES. */
  maxBodyBytes?: number;
  /** The handler parses the text of the body itself. */
  takesText?: true;
  /** Describes the text in the documentation. The text is not checked against it. */
  textSchema?: z.ZodType;
  /**
   * Answers everybody the same. Credentials of a request are not looked at, so it counts among the requests without
   * credentials. Links on other sites may lead to it.
   */
  isPublic?: true;
  /**
   * Marks a page of the console, which a person calls with a session instead of credentials. The function
   * returns the answer to an error; its `caller` is undefined if nobody is logged in.
   */
  page?: (error: BusError, call: PageCall) => Answer;
  /** The fields of a form, without `form_token`, which is checked before. */
  form?: Input<Body>;
  answers: A;
  /**
   * Name of the change in the audit, such as `topic.delete`. Every route that changes something has one,
   * except publishing.
   */
  action?: string;
  /** Error codes of this route, in addition to those of every route. */
  errors?: readonly ErrorCode[];
  /** Called before the body is read. Throws for a call that can be refused without its body. */
  refuseEarly?(call: Omit<Call<R, Params, Query>, 'body' | 'text'>): unknown;
  /** Called with the body, for checks that may take a while. The credentials are checked again afterwards. */
  refuseLate?(call: Call<R, Params, Query, Body>): Promise<unknown>;
  /**
   * Marks a call that is so frequent that checking its credentials twice would cost too much. They are
   * checked again only if the body took long to arrive, and against the cache of clients. The credentials of
   * all other calls that change something are checked again, against Redis.
   */
  isFrequent?: true;
  handle(call: Call<R, Params, Query, Body>): Promise<AnswerTo<A>>;
}

export interface Route extends Row<Role, unknown, unknown, unknown, Answers> {
  method: Method;
  path: string;
  /** The roles that may call. Empty: anyone, without credentials. */
  roles: readonly Role[];
  /** Answers requests to no route. Their credentials are not looked at, so they count among requests without. */
  isUnknown?: true;
}

/**
 * Makes a route such as `GET /topics`. The compiler checks the handler against the schemas of inputs and
 * answers; the table itself has no such types.
 */
export function route<const R extends Role, Params, Query, Body, const A extends Answers>(
  call: `${Method} /${string}`,
  roles: readonly R[],
  row: Row<R, Params, Query, Body, A>,
): Route {
  const [method, path] = call.split(' ') as [Method, string];
  return { ...(row as unknown as Row<Role, unknown, unknown, unknown, Answers>), method, path, roles };
}

/** The `answers` of a route that only answers NO_CONTENT. */
export const NOTHING = { 204: null } as const;

export const NO_CONTENT = { status: 204 } as const;

export function ok<Body>(body: Body): { status: 200; body: Body } {
  return { status: 200, body };
}

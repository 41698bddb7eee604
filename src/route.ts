import type { IncomingHttpHeaders } from 'node:http';
import type { z } from 'zod';
import type { Caller, Role } from './caller.ts';
import type { ErrorCode } from './errors.ts';

/** How the problem reads that answers an input which does not match its schema. */
export interface Wording {
  /** The code, or the code by the field that is wrong. */
  code: ErrorCode | ((field: string) => ErrorCode);
  /** The detail where the input is wrong as a whole. */
  whole: string;
  /** The detail where one field is wrong. Left out: `whole` is the detail then too, and the problem names no field. */
  field?: (name: string, rule: string) => string;
  /** The detail for a field that the schema does not know. */
  unknown?: (name: string) => string;
}

/** One input of a route. */
export interface Input<T> {
  schema: z.ZodType<T>;
  wording: Wording;
}

/** A request that was authenticated, and whose input was checked against its route. */
export interface Call<R extends Role = Role, Params = unknown, Query = unknown, Body = unknown> {
  caller: Extract<Caller, { role: R }>;
  path: string;
  params: Params;
  query: Query;
  body: Body;
  /** The body as it came, for a route that takes text; empty for others. */
  text: string;
  headers: IncomingHttpHeaders;
}

/** The body is sent as JSON; text, whole or in pieces, is sent as it is, with the Content-Type of `headers`. */
export interface Answer {
  status: number;
  headers?: Record<string, string> | undefined;
  body?: unknown;
}

/** The schema of the body by status; null where there is no body. */
type Answers = Record<number, z.ZodType | null>;

type AnswerTo<A extends Answers> = {
  [Status in keyof A]: {
    status: Status;
    headers?: Record<string, string> | undefined;
  } & (A[Status] extends z.ZodType<infer Body>
    ? { body: Body | AsyncIterable<string> }
    : { body?: undefined });
}[keyof A];

type Method = 'GET' | 'POST' | 'DELETE';

/** One row of the route table, but for who may call what. */
interface Row<R extends Role, Params, Query, Body, A extends Answers> {
  /** Answered by plain http too, and while Redis is not ready. */
  isHealthCheck?: true;
  params?: Input<Params>;
  query?: Input<Query>;
  /** A JSON body. An empty one is undefined, if the schema takes that. */
  body?: Input<Body>;
  /** The handler reads the body itself. */
  takesText?: true;
  answers: A;
  /** The codes of problems that this route adds to those that every route can answer. */
  errors?: readonly ErrorCode[];
  /** Throws what needs no body to be refused. Called before the body is read. */
  refuseEarly?(call: Omit<Call<R, Params, Query>, 'body' | 'text'>): unknown;
  handle(call: Call<R, Params, Query, Body>): Promise<AnswerTo<A>>;
}

export interface Route extends Row<Role, unknown, unknown, unknown, Answers> {
  method: Method;
  /** As Express writes it. */
  path: string;
  /** Who may call. Empty: anyone, without credentials. */
  roles: readonly Role[];
}

/**
 * A route such as `GET /topics`. The compiler checks that the handler takes what the schemas give, and answers what they promise;
 * the table then forgets the types.
 */
export function route<const R extends Role, Params, Query, Body, const A extends Answers>(
  call: `${Method} /${string}`,
  roles: readonly R[],
  row: Row<R, Params, Query, Body, A>,
): Route {
  const [method, path] = call.split(' ') as [Method, string];
  return { ...(row as unknown as Row<Role, unknown, unknown, unknown, Answers>), method, path, roles };
}

export const NO_CONTENT = { status: 204 } as const;

export function ok<Body>(body: Body): { status: 200; body: Body } {
  return { status: 200, body };
}

import type { Caller } from '../caller.ts';
import { BusError } from '../errors.ts';
import { checked } from '../http/validation.ts';
import type { Call, Route } from '../route.ts';

/** The call of a page or form. The API is called in the name of its caller. */
export type Visit = Pick<Call, 'headers' | 'request' | 'formToken'> & { caller: Caller | undefined };

interface ApiInput {
  params?: Record<string, string>;
  query?: Record<string, string | undefined>;
  body?: unknown;
}

export interface ApiAnswer<T> {
  body: T;
  /** The query of the next page of a listing. */
  next: Record<string, string> | undefined;
}

/**
 * Calls the API for pages, in this process. A visitor may do by a page whatever it may do by the API, and
 * sees what the API shows; only the API decides that.
 */
export class ApiCalls {
  readonly #routes: ReadonlyMap<string, Route>;

  constructor(routes: readonly Route[]) {
    this.#routes = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]));
  }

  /** True if the visitor may make this call, such as `GET /topics`. */
  allows(name: string, { caller }: Visit): boolean {
    return caller !== undefined && (this.#routes.get(name)?.roles.includes(caller.role) ?? false);
  }

  /** Makes a call. Throws the error that the API would answer. */
  async call<T>(
    name: string,
    visit: Visit,
    { params = {}, query = {}, body }: ApiInput = {},
  ): Promise<ApiAnswer<T>> {
    const route = this.#routes.get(name);
    if (!route) throw new Error(`there is no call ${name}`);
    const { caller } = visit;
    if (!caller || !this.allows(name, visit))
      throw new BusError('forbidden', `only ${route.roles.join(' or ')} may do this`);
    const path = route.path.replace(/:(\w+)/g, (_, part: string) => encodeURIComponent(params[part] ?? ''));
    const asked = Object.fromEntries(
      Object.entries(query).filter(([, value]) => value !== undefined && value !== ''),
    );
    const call = {
      ...{ caller, path, text: '', headers: visit.headers, request: visit.request, formToken: '' },
      params: checked(route.params, params),
      query: checked(route.query, asked),
      body: checked(route.body, body),
    } as Call;
    await route.refuseEarly?.(call);
    await route.refuseLate?.(call);
    const { body: answer, headers } = await route.handle(call);
    const whole = isPieces(answer) ? JSON.parse(await joined(answer)) : answer;
    return { body: whole as T, next: nextQuery(headers?.Link) };
  }
}

function isPieces(body: unknown): body is AsyncIterable<string> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}

async function joined(pieces: AsyncIterable<string>): Promise<string> {
  let text = '';
  for await (const piece of pieces) text += piece;
  return text;
}

function nextQuery(link: string | undefined): Record<string, string> | undefined {
  const query = /^<[^?>]*\?([^>]*)>/.exec(link ?? '')?.[1];
  return query === undefined ? undefined : Object.fromEntries(new URLSearchParams(query));
}

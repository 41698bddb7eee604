import { BusError } from '../errors.ts';
import { isPieces } from '../http/answers.ts';
import { checked } from '../http/validation.ts';
import { parseOwnJson } from '../json.ts';
import { type Caller, clientOf } from '../routing/caller.ts';
import type { Call, Route } from '../routing/route.ts';
import type { Refusal } from './fields.ts';

/** The parts of a request to the console that `ApiCalls` needs to call the API for the visitor. */
export type PageCall = Pick<
  Call,
  'headers' | 'request' | 'formToken' | 'judgeAgain' | 'endedSubscriptions'
> & {
  caller: Caller | undefined;
  /** Present if the page is shown again because a form on it was refused. */
  refusal?: Refusal;
};

export interface ApiInput {
  params?: Record<string, string>;
  query?: Record<string, string | undefined>;
  body?: unknown;
  /** The body of a call that takes plain text instead of JSON. */
  text?: string;
  /** Returns what the page needs of an entry of a listing. The rest of the entry, which may be long, is dropped. */
  keep?: (entry: never) => unknown;
  /**
   * For a call whose answer ends with a list of events and may have hundreds of megabytes. After MAX_READ characters
   * the list is cut off between two events, and `ending`, such as `]}`, is appended, so that the text is valid JSON.
   */
  ending?: string;
}

const MAX_READ = 131_072;

/**
 * Number of characters of the API's answers that cost as much as one call in the visitor's rate limit. (The console
 * calls the API to make a page.)
 */
const CHARACTERS_PER_CALL = 16_384;
const charges = new WeakMap<object, number>();

/**
 * Returns how many calls a page or form costs in the visitor's rate limit, besides its own request: the sum of what
 * `charge` has added.
 */
export function chargeOf(pageCall: object): number {
  return charges.get(pageCall) ?? 0;
}

/** Adds to the price of a page or form (see `chargeOf`). */
export function charge(pageCall: object, priceInCalls: number): void {
  charges.set(pageCall, chargeOf(pageCall) + priceInCalls);
}

interface ApiAnswer<T> {
  body: T;
  /** The query of the next page of a listing. Undefined on the last page. */
  next: Record<string, string> | undefined;
}

/**
 * Calls the API for the pages of the console, inside this process. Each call passes the checks of the API's route, so a
 * page can do and show only what the API permits.
 */
export class ApiCalls {
  readonly #routes: ReadonlyMap<string, Route>;
  /** Resolves with the time by the clock of Redis. The API gives times by this clock, so pages compute ages by it. */
  readonly nowMs: () => Promise<number>;

  constructor(routes: readonly Route[], nowMs: () => Promise<number>) {
    this.nowMs = nowMs;
    this.#routes = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]));
  }

  /** Returns the row of the call `name`, such as `GET /topics`. */
  route(name: string): Route {
    const route = this.#routes.get(name);
    if (!route) throw new Error(`there is no call ${name}`);
    return route;
  }

  /** True if the visitor's role permits the call `name`, such as `GET /topics`. */
  allows(name: string, { caller }: PageCall): boolean {
    return caller !== undefined && this.route(name).roles.includes(caller.role);
  }

  /**
   * Calls a route of the API for the visitor. `name` is its method and path, such as `GET /topics`. Throws the error
   * that the API would answer.
   */
  async call<T>(
    name: string,
    pageCall: PageCall,
    { params = {}, query = {}, body, text = '', keep, ending }: ApiInput = {},
  ): Promise<ApiAnswer<T>> {
    const route = this.route(name);
    const { caller } = pageCall;
    if (!caller || !this.allows(name, pageCall))
      throw new BusError('forbidden', `only ${route.roles.join(' or ')} may do this`);
    const path = route.path.replace(/:(\w+)/g, (_, part: string) => encodeURIComponent(params[part] ?? ''));
    // Some links name a client in the query (`client` or `subscriber`), and a client sees the same links as root. But
    // the API refuses these parameters from a client. So a parameter that names the calling client is left out.
    const own = clientOf(caller);
    const asked = Object.fromEntries(
      Object.entries(query).filter(
        ([name, value]) =>
          value !== undefined && value !== '' && !(value === own && /^(client|subscriber)$/.test(name)),
      ),
    );
    const call = {
      caller,
      path,
      text,
      headers: pageCall.headers,
      request: pageCall.request,
      judgeAgain: pageCall.judgeAgain,
      endedSubscriptions: pageCall.endedSubscriptions,
      formToken: '',
      params: checked(route.params, params),
      query: checked(route.query, asked),
      body: checked(route.body, body),
    } as Call;
    await route.refuseEarly?.(call);
    await route.refuseLate?.(call);
    const { body: answer, headers, priceInCalls = 0 } = await route.handle(call);
    charge(pageCall, priceInCalls);
    const whole = isPieces(answer) ? await read(charged(answer, pageCall), keep, ending) : answer;
    return { body: whole as T, next: nextQuery(headers?.Link) };
  }
}

async function* charged(pieces: AsyncIterable<string>, pageCall: PageCall): AsyncGenerator<string> {
  for await (const piece of pieces) {
    charge(pageCall, piece.length / CHARACTERS_PER_CALL);
    yield piece;
  }
}

async function read(
  pieces: AsyncIterable<string>,
  keep: ApiInput['keep'],
  ending: string | undefined,
): Promise<unknown> {
  const entries: unknown[] = [];
  let text = '';
  for await (const piece of pieces) {
    // The API sends a long list in pieces. Each begins with a bracket or a comma, which `slice` removes. The last piece
    // is only the closing bracket.
    if (keep) entries.push(...(parseOwnJson(`[${piece.slice(1)}]`) as never[]).map(keep));
    else if (ending !== undefined && text.length > MAX_READ && !piece.startsWith(']')) {
      text += ending;
      break;
    } else text += piece;
  }
  return keep ? entries : parseOwnJson(text);
}

function nextQuery(link: string | undefined): Record<string, string> | undefined {
  const query = /^<[^?>]*\?([^>]*)>/.exec(link ?? '')?.[1];
  return query === undefined ? undefined : Object.fromEntries(new URLSearchParams(query));
}

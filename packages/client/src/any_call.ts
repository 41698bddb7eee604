import type { Answer } from './answer.ts';
import {
  type CallAnswer,
  type CallInput,
  type CallName,
  type Entry,
  type ListName,
  type PathParams,
  requestOf,
} from './calls.ts';
import { type CallOptions, Deadline } from './deadline.ts';
import type { Calls } from './generated/calls.ts';
import { ProblemError } from './problem.ts';
import { Attempts } from './retrying.ts';
import type { Request, Transport } from './transport.ts';

/** Number of entries that a listing asks for in one request, unless its options say otherwise. */
const PER_PAGE = 100;

/**
 * The POST calls that may be repeated, because doing them twice has the same effect as once. All calls by GET, PUT and
 * DELETE may be repeated too.
 */
const REPEATABLE: ReadonlySet<string> = new Set<CallName>([
  'POST /subscription',
  'POST /subscriber',
  'POST /subscriber/pause',
  'POST /subscriber/resume',
  'POST /subscribers/:token/pause',
  'POST /subscribers/:token/resume',
  'POST /dead_letters/retry',
  'POST /dead_letters/:id/retry',
  'POST /jobs/:id/run',
]);

/** Options of a listing. `limit` is the number of entries on a page, up to 1,000. `timeoutMs` applies to each page. */
export type ListOptions<C extends ListName> = Omit<Calls[C]['query'], 'after' | 'before' | 'cursor'> &
  CallOptions;

/** Makes any call of the HTTP API by its name, such as `GET /topics`. Decides which calls may be repeated. */
export abstract class AnyCall {
  readonly #transport: Transport;
  readonly #timeoutMs: number;

  constructor(transport: Transport, timeoutMs: number) {
    this.#transport = transport;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Makes any call of the API. Resolves with the JSON or the text of the answer, or with undefined if it is empty.
   * Repeats a failed call if doing it twice is harmless, or if the bus has certainly not done it.
   */
  async call<C extends CallName>(
    call: C,
    input: CallInput<C>,
    options: CallOptions = {},
  ): Promise<CallAnswer<C>> {
    const request = requestOf(call, input as object);
    const isRepeatable = request.method !== 'POST' || REPEATABLE.has(call);
    return this.#contentOf(await this.request(request, isRepeatable, options)) as CallAnswer<C>;
  }

  /** Requests a listing, one page after the other, and yields its entries. */
  async *list<C extends ListName>(
    call: C,
    options: ListOptions<C> & PathParams<C>,
  ): AsyncGenerator<Entry<C>, void, void> {
    const { signal, timeoutMs, params, ...query }: CallOptions & { params?: object } = options;
    let path: string | undefined = requestOf(call, { params, query: { limit: PER_PAGE, ...query } }).path;
    while (path !== undefined) {
      const answer: Answer = await this.request({ method: 'GET', path }, true, { signal, timeoutMs });
      yield* (this.#contentOf(answer) ?? []) as Entry<C>[];
      path = /<([^>]*)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
    }
  }

  /**
   * Makes a request, and resolves with the answer if its status is 2xx. After a transient failure, repeats the request
   * if doing it twice is harmless (`isRepeatable`), or if the bus has certainly not done it. A repeated DELETE that
   * gets 404 counts as done: an earlier attempt has probably deleted the thing.
   */
  protected async request(request: Request, isRepeatable: boolean, options: CallOptions): Promise<Answer> {
    const { timeoutMs = this.#timeoutMs, signal } = options;
    const attempts = new Attempts();
    const ended = new AbortController();
    const deadline = new Deadline(timeoutMs, signal, (errorFor) => ended.abort(errorFor(attempts)));
    try {
      const send = () => this.attempt(request, ended.signal);
      return await attempts.make({ send, request, signal: ended.signal, isRepeatable });
    } catch (error) {
      const isGone = error instanceof ProblemError && error.status === 404;
      if (!isGone || request.method !== 'DELETE' || !attempts.hasUnknownEnd) throw error;
      return { status: 204, headers: new Headers(), text: '' };
    } finally {
      deadline.clear();
    }
  }

  /** Makes one attempt at a request. A subclass can override this method to look at the answer to each attempt. */
  protected attempt(request: Request, signal: AbortSignal): Promise<Answer> {
    return this.#transport.send(request, signal);
  }

  /**
   * Parses the JSON of an answer. A subclass can override this method, for example to keep the digits of large numbers.
   */
  protected parse(text: string): unknown {
    return JSON.parse(text);
  }

  #contentOf({ headers, text }: Answer): unknown {
    if (text === '') return undefined;
    return headers.get('content-type')?.startsWith('application/json') ? this.parse(text) : text;
  }
}

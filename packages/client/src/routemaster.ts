/// <reference lib="esnext.disposable" preserve="true" />
import type { Answer } from './answer.ts';
import { Api } from './api.ts';
import { basic, Digest } from './credentials.ts';
import { type CallOptions, refuseWrongTimeLimit } from './deadline.ts';
import type { EventType } from './generated/calls.ts';
import type { NewEvent } from './pending.ts';
import { ClosedError } from './problem.ts';
import { publishAll } from './publish_all.ts';
import { Publisher } from './publisher.ts';
import { type Request, Transport } from './transport.ts';

const CALL_TIMEOUT_MS = 60_000;
const ATTEMPT_TIMEOUT_MS = 15_000;

export interface RoutemasterOptions {
  /** The URL of the bus, such as https://bus.example.com. */
  url: string;
  /** The token of the client. For root: `root` if `digest` is true, otherwise the root key. */
  token: string;
  /** The secret of the client, if it has one. For root: the root key if `digest` is true, otherwise nothing. */
  secret?: string;
  /** If true, uses Digest authentication (SHA-256) instead of Basic, so that the secret does not cross the network. */
  digest?: boolean | undefined;
  /** Time within which a call must succeed, retries and waits included: 60,000 ms by default, 540,000 ms at most. */
  timeoutMs?: number | undefined;
  /**
   * If an attempt has no answer after this time, the client ends it, and makes another if the call may be repeated. The
   * default is 15,000 ms.
   */
  attemptTimeoutMs?: number | undefined;
}

/** All options, each with its type. The compiler refuses this list if an option is missing. */
const OPTIONS: Record<keyof RoutemasterOptions, string> = {
  url: 'string',
  token: 'string',
  secret: 'string',
  digest: 'boolean',
  timeoutMs: 'number',
  attemptTimeoutMs: 'number',
};

/** What may be given with an event besides `type` and `url`, and the options that every call takes. */
export type EventDetails<Data = unknown> = Omit<NewEvent<Data>, 'type' | 'url'> & CallOptions;

/**
 * Calls the API of a bus as one client, or as root. `Topics` gives the type of an event's `data` by topic:
 * `new Routemaster<{ orders: Order }>(…)`. Methods reject with ProblemError (a subclass for each known error code),
 * ConnectionError, TimeLimitError, ClosedError, or the reason of their `signal`.
 */
export class Routemaster<Topics extends object = Record<string, unknown>> extends Api {
  readonly #publisher: Publisher;
  readonly #timeoutMs: number;
  #isClosed = false;

  /** Throws TypeError for a wrong option or a missing `token`, and RangeError for a time that is not allowed. */
  constructor(options: RoutemasterOptions) {
    refuseWrong(options);
    const { url, token, secret = '', digest = false, ...times } = options;
    if (!token) throw new TypeError('the token is missing; is its variable set in the environment?');
    const { timeoutMs = CALL_TIMEOUT_MS, attemptTimeoutMs = ATTEMPT_TIMEOUT_MS } = times;
    refuseWrongTimeLimit(timeoutMs);
    const credentials = digest ? new Digest(token, secret) : basic(token, secret);
    const transport = new Transport({ url, credentials, attemptTimeoutMs });
    super(transport, timeoutMs);
    this.#publisher = new Publisher(transport);
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Publishes an event. Resolves when the event is stored for every subscriber or, if it is delayed, stored for later.
   * The object `event` must not change until then. Events of one topic are stored in the order of the calls, and
   * several can go in one request.
   */
  async publish<T extends keyof Topics & string>(
    topic: T,
    event: NewEvent<Topics[T]>,
    { timeoutMs = this.#timeoutMs, signal }: CallOptions = {},
  ): Promise<void> {
    refuseNoTopic(topic);
    if (this.#isClosed) throw new ClosedError();
    return this.#publisher.publish({ topic, event, timeoutMs, signal });
  }

  /**
   * Publishes each event of `events`, with a time limit of `timeoutMs` for each. Keeps at most 4,000 events in memory
   * at a time. If all are stored, resolves with their number. Otherwise waits until each event that was read is stored
   * or refused. Then rejects with:
   * - a PublishAllError if an event failed. At most one more event is read after the failure.
   * - the error of the iterable `events`, or the reason of an aborted `signal`, if no event failed.
   */
  async publishAll<T extends keyof Topics & string>(
    topic: T,
    events: Iterable<NewEvent<Topics[T]>> | AsyncIterable<NewEvent<Topics[T]>>,
    options?: CallOptions,
  ): Promise<number> {
    refuseNoTopic(topic);
    return publishAll(events, (event) => this.publish(topic, event, options), options?.signal);
  }

  created<T extends keyof Topics & string>(topic: T, url: string, details?: EventDetails<Topics[T]>) {
    return this.#publishAs('create', topic, url, details);
  }

  updated<T extends keyof Topics & string>(topic: T, url: string, details?: EventDetails<Topics[T]>) {
    return this.#publishAs('update', topic, url, details);
  }

  deleted<T extends keyof Topics & string>(topic: T, url: string, details?: EventDetails<Topics[T]>) {
    return this.#publishAs('delete', topic, url, details);
  }

  noop<T extends keyof Topics & string>(topic: T, url: string, details?: EventDetails<Topics[T]>) {
    return this.#publishAs('noop', topic, url, details);
  }

  /** Resolves when every event that was published before this call is stored or refused. Never rejects. */
  flush(): Promise<void> {
    return this.#publisher.flush();
  }

  /** Refuses further calls, and then resolves like `flush`. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.flush();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  protected override async request(
    request: Request,
    isRepeatable: boolean,
    options: CallOptions,
  ): Promise<Answer> {
    if (this.#isClosed) throw new ClosedError();
    return super.request(request, isRepeatable, options);
  }

  #publishAs<T extends keyof Topics & string>(
    type: EventType,
    topic: T,
    url: string,
    { signal, timeoutMs, ...details }: EventDetails<Topics[T]> = {},
  ): Promise<void> {
    return this.publish(topic, { type, url, ...details }, { signal, timeoutMs });
  }
}

/**
 * Throws TypeError if there are no options, or if one is unknown or of a wrong type, since JavaScript has no compiler
 * to find this. Also throws if `secret` is undefined or empty, for example because an environment variable is not set.
 */
function refuseWrong(options: RoutemasterOptions): void {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('give the options as an object, such as { url, token, secret }');
  for (const [name, value] of Object.entries(options)) {
    const type = Object.hasOwn(OPTIONS, name) && OPTIONS[name as keyof RoutemasterOptions];
    if (!type)
      throw new TypeError(`there is no option ${name}; the options are ${Object.keys(OPTIONS).join(', ')}`);
    if (value !== undefined && typeof value !== type) throw new TypeError(`${name} must be a ${type}`);
    if (name === 'secret' && !value)
      throw new TypeError('secret has no value; leave it out if there is none');
  }
}

/** Throws TypeError for a topic that is no text, as in `publish(event)`: the event would be taken for the topic. */
function refuseNoTopic(topic: unknown): void {
  if (typeof topic === 'string' && topic !== '') return;
  throw new TypeError("the first argument must be the name of a topic, such as 'orders'");
}

import type { Answer } from './answer.ts';
import type { Credentials } from './credentials.ts';
import { MAX_TIMEOUT_MS } from './deadline.ts';
import { ConnectionError } from './problem.ts';

export interface Request {
  method: string;
  /** Path and query of the request, encoded. */
  path: string;
  body?: string | undefined;
  /** The value of the header Idempotency-Key. */
  key?: string | undefined;
}

/**
 * Maximum Digest challenges that one attempt answers. The first one brings a nonce. A second one means that the bus no
 * longer accepts this nonce, and brings another. A third one means that the secret is wrong.
 */
const MAX_CHALLENGES = 2;

/** Error codes of failures before the request is sent. The bus cannot have done such a request. */
const NOT_SENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;

/** Error codes of failures of TLS, such as a certificate that is not trusted. Another attempt would fail too. */
const TLS_FAILURE = /CERT|^UNABLE_TO_VERIFY|^ERR_(TLS|SSL)/;

const NO_TLS = 'what answers there does not speak TLS, but perhaps plain http';
const BAD_PORT = 'this port is reserved for another protocol, and HTTP is not sent to it';

/** Sends requests by `fetch`, which keeps connections alive. */
export class Transport {
  readonly #origin: string;
  readonly #base: string;
  readonly #credentials: Credentials;
  readonly #attemptTimeoutMs: number;

  constructor({ url, credentials, attemptTimeoutMs }: TransportParts) {
    if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
      throw new TypeError(`the url must be like https://bus.example.com, not ${url}`);
    const { origin, pathname, username, password } = new URL(url);
    if (username || password) throw new TypeError('the url must have no credentials: give token and secret');
    if (/[?#]/.test(url)) throw new TypeError(`the url must have no query and no fragment: ${url}`);
    this.#origin = origin;
    this.#base = `${origin}${pathname.replace(/\/$/, '')}`;
    this.#credentials = credentials;
    if (!(attemptTimeoutMs > 0))
      throw new RangeError(`attemptTimeoutMs must be more than 0, not ${attemptTimeoutMs}`);
    // A timer of more than 24 days, such as Infinity, would end immediately. No call lasts longer than MAX_TIMEOUT_MS
    // anyway.
    this.#attemptTimeoutMs = Math.min(attemptTimeoutMs, MAX_TIMEOUT_MS);
  }

  /** Makes one attempt. Throws ConnectionError if there is no answer. Throws `signal.reason` if `signal` is aborted. */
  async send(request: Request, signal?: AbortSignal): Promise<Answer> {
    const url = this.#urlOf(request);
    for (let challenges = 0; ; challenges++) {
      const authorization = this.#credentials.authorization(request.method, url.pathname + url.search);
      const answer = await this.#fetch(url, request, authorization, signal);
      if (answer.status !== 401 || challenges === MAX_CHALLENGES) return answer;
      if (!this.#credentials.renew(answer.headers.get('www-authenticate'), authorization)) return answer;
    }
  }

  /**
   * Returns the URL of a request. Throws ConnectionError if the URL is not on the server of the bus, because another
   * server must not get the credentials. A wrong path can come from the link to the next page of a listing: after
   * `https://bus`, a path such as `@example.com/` leads to example.com.
   */
  #urlOf({ path }: Request): URL {
    const url = URL.canParse(this.#base + path) ? new URL(this.#base + path) : undefined;
    if (url?.origin === this.#origin) return url;
    const message = `a listing continues at ${path}, which is not on the server of the bus`;
    throw new ConnectionError(message, { isTransient: false, mayBeDone: false, cause: undefined });
  }

  async #fetch(
    url: URL,
    { method, body, key }: Request,
    authorization: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    signal?.throwIfAborted();
    const attempt = new AbortController();
    const giveUp = () => attempt.abort(signal?.reason);
    const timer = setTimeout(() => attempt.abort(), this.#attemptTimeoutMs);
    signal?.addEventListener('abort', giveUp);
    try {
      const response = await fetch(url, {
        method,
        headers: {
          ...(authorization !== undefined && { authorization }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...(key !== undefined && { 'idempotency-key': `"${key}"` }),
        },
        ...(body !== undefined && { body }),
        redirect: 'manual',
        signal: attempt.signal,
      });
      return { status: response.status, headers: response.headers, text: await response.text() };
    } catch (error) {
      signal?.throwIfAborted();
      throw this.#noAnswer(error, attempt.signal.aborted);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', giveUp);
    }
  }

  #noAnswer(error: unknown, isLate: boolean): unknown {
    if (isLate) {
      const message = `no answer within ${this.#attemptTimeoutMs} ms`;
      return new ConnectionError(message, { isTransient: true, mayBeDone: true, cause: error });
    }
    // The TypeError of `fetch` usually has the real error as its `cause`. If an HTTP proxy refuses to connect, that
    // `cause` is a DOMException, whose own `cause` is the real error. The classes of these errors are not
    // tested with `instanceof`: in Jest, the classes that `fetch` uses are not the global ones.
    const thrown = (error as Error).cause as Error | undefined;
    const isRefusal = isDomException(thrown) && thrown?.cause !== undefined;
    const cause = (isRefusal ? thrown?.cause : thrown) as NodeJS.ErrnoException | undefined;
    if (!cause) return error;
    const { code } = cause;
    // An error without a code means that `fetch` itself refuses the request, for example because of a forbidden port.
    // It would refuse every attempt, so the error is not transient.
    const isTransient = code !== undefined && !TLS_FAILURE.test(code);
    const mayBeDone = isTransient && !isRefusal && !NOT_SENT.test(code);
    return new ConnectionError(`no answer: ${textOf(cause) || code}`, { isTransient, mayBeDone, cause });
  }
}

function textOf({ code, message }: NodeJS.ErrnoException): string {
  // OpenSSL's own message is not used, because it has memory addresses, the name of a source file and a line break.
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER') return NO_TLS;
  // For a port that it forbids, `fetch` throws an error with this message and without a code.
  if (message === 'bad port') return BAD_PORT;
  return message;
}

function isDomException(value: unknown): boolean {
  return Object.prototype.toString.call(value) === '[object DOMException]';
}

interface TransportParts {
  url: string;
  credentials: Credentials;
  attemptTimeoutMs: number;
}

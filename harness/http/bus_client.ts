export interface Credentials {
  token: string;
  secret: string;
}

/** The bus answered with an error. */
export class BusAnswerError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** A client of the bus by its HTTP API, with Basic authentication. */
export class BusClient {
  readonly #url: string;
  readonly #authorization: string;

  constructor(url: string, { token, secret }: Credentials) {
    this.#url = url;
    this.#authorization = `Basic ${Buffer.from(`${token}:${secret}`).toString('base64')}`;
  }

  /** Returns the body of a 2xx answer; undefined if it has none. Throws BusAnswerError for any other. */
  async call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<unknown> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: { authorization: this.#authorization, 'content-type': 'application/json', ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      redirect: 'manual',
      signal: AbortSignal.timeout(10_000),
    });
    const text = await response.text();
    if (!response.ok)
      throw new BusAnswerError(response.status, `${method} ${path} → ${response.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }
}

import assert from 'node:assert/strict';
import type { Agent, IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { connect } from 'node:net';
import { ERRORS, type ErrorCode } from '../../src/errors.ts';
import { http } from '../../src/node_http.ts';
import type { Partition } from '../../src/store/partition.ts';
import { aroundTests } from '../around_tests.ts';
import { ROOT_KEY, VIEWER_KEY } from '../processes/bus_environment.ts';
import { WebProcess } from '../processes/web_process.ts';
import { PrivateRedis } from '../redis/private_redis.ts';
import { openStore } from '../redis/store.ts';
import { until } from '../until.ts';
import { Contract } from './contract.ts';

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  tookMs: number;
}

/** A problem document, as RFC 9457 and src/errors.ts have it. */
interface Problem {
  status: number;
  code: ErrorCode;
  detail: string;
  index?: number;
  field?: string;
}

export interface CallOptions {
  /** Name of the caller; nobody by default. */
  as?: string;
  headers?: OutgoingHttpHeaders;
  body?: string | Buffer;
}

interface ApiOptions {
  env?: Record<string, string>;
  redisConfig?: Record<string, string>;
  /** Headers of every call, such as the headers that a router would add. */
  headers?: OutgoingHttpHeaders;
  prepare?: (api: Api) => Promise<unknown>;
}

/** The Authorization header of each caller that is no client. */
const KEY_HOLDERS = new Map([
  ['root', basic(ROOT_KEY, '')],
  ['viewer', basic(VIEWER_KEY, '')],
]);

/**
 * The contracts of this process, by the settings that change the OpenAPI document. To make the document takes a web
 * process 0.1 s of CPU, and to compile the checks takes as long. So the files that run in one process share them.
 */
const CONTRACTS = new Map<string, Contract>();

/** A web process with a private Redis, started before the tests of a file and ended after them. */
export class Api {
  readonly #headers: OutgoingHttpHeaders;
  readonly #agent = new http.Agent({ keepAlive: true });
  readonly #authorizations = new Map(KEY_HOLDERS);
  readonly #tokens = new Map<string, string>();
  #env: Record<string, string> = {};
  #redis: PrivateRedis | undefined;
  #store: Partition | undefined;
  #web: WebProcess | undefined;
  readonly #others: WebProcess[] = [];
  #port = 0;
  #contract: Contract | undefined;

  /** `prepare` is called before the tests, when the web process works. */
  constructor({ env = {}, redisConfig = {}, headers = {}, prepare }: ApiOptions = {}) {
    this.#headers = headers;
    const begin = async () => {
      this.#redis = await PrivateRedis.start({ config: redisConfig });
      this.#store = await openStore(this.#redis.url);
      // No rates, because tests call as fast as they can.
      const rates = { ROUTEMASTER_CALL_RATE: '0', ROUTEMASTER_STRANGER_RATE: '0' };
      const keys = { ROUTEMASTER_VIEWER_KEY: VIEWER_KEY };
      this.#env = { ROUTEMASTER_REDIS_URL: this.#redis.url, ...keys, ...rates, ...env };
      this.#web = new WebProcess(this.#env);
      this.#port = await this.#web.port();
      await until(async () => (await this.call('GET', '/pulse', { as: 'root' })).status === 204);
      this.#contract = await this.#readContract();
      await prepare?.(this);
    };
    aroundTests(begin, async () => {
      this.#agent.destroy();
      this.#store?.redis.disconnect();
      await Promise.all([this.#web, ...this.#others].map((web) => web?.kill()));
      await this.#redis?.stop();
    });
  }

  get redis(): PrivateRedis {
    return begun(this.#redis);
  }

  get store(): Partition {
    return begun(this.#store);
  }

  get port(): number {
    return this.#port;
  }

  /** The contract that every answer to `call` is checked against. */
  get contract(): Contract {
    return begun(this.#contract);
  }

  get web(): WebProcess {
    return begun(this.#web);
  }

  /**
   * Starts another web process with the same Redis and environment, which ends with the first. Returns its
   * port.
   */
  async another(): Promise<number> {
    const web = new WebProcess(this.#env);
    this.#others.push(web);
    return web.port();
  }

  /**
   * Empties Redis and forgets the clients that were in it. Two things stay: the keys of nonces, because web processes
   * remember them, and `schema`, because web processes would otherwise take the data for lost. Web processes also
   * remember clients for a second. So a test that chooses a token for a client must not choose one that an earlier test
   * has used.
   */
  async reset(): Promise<void> {
    const { redis, keys } = this.store;
    const kept = [keys.schema(), keys.digest_keys(), keys.digest_run()];
    const all = await redis.keys('*');
    await redis.del('-', ...all.filter((key) => !kept.includes(key)));
    this.#tokens.clear();
    for (const name of this.#authorizations.keys())
      if (!KEY_HOLDERS.has(name)) this.#authorizations.delete(name);
  }

  /** Returns the token of the client of this name. Makes the client if there is none. */
  async token(name: string): Promise<string> {
    const known = this.#tokens.get(name);
    if (known !== undefined) return known;
    const body = JSON.stringify({ name });
    const made = await this.call('POST', '/api_tokens', { as: 'root', body });
    assert.equal(made.status, 201, made.text);
    const client = JSON.parse(made.text);
    this.enter(client);
    return client.token;
  }

  /** Makes this client the caller of further calls by `name`. */
  enter({ name, token, secret = '' }: { name: string; token: string; secret?: string }): void {
    this.#tokens.set(name, token);
    this.#authorizations.set(name, basic(token, secret));
  }

  /** Forgets the client of this name, so that its next call makes a new client. Keeps `root` and `viewer`. */
  forget(name: string): void {
    if (KEY_HOLDERS.has(name)) return;
    this.#tokens.delete(name);
    this.#authorizations.delete(name);
  }

  /**
   * Returns the Authorization header of `root`, of `viewer`, or of the client of this name. Makes the client
   * if there is none.
   */
  async authorization(name: string): Promise<string> {
    if (!this.#authorizations.has(name)) await this.token(name);
    return this.#authorizations.get(name) ?? '';
  }

  async #readContract(): Promise<Contract> {
    const settings = `${this.#env.ROUTEMASTER_COMPATIBILITY} ${this.#env.FORCE_SSL}`;
    const known = CONTRACTS.get(settings);
    if (known) return known;
    const { text } = await this.call('GET', '/openapi.json');
    const contract = new Contract(JSON.parse(text));
    CONTRACTS.set(settings, contract);
    return contract;
  }

  /** Sends one request to exactly this path. Resolves with the whole answer. Throws if the contract has no such answer. */
  async call(method: string, path: string, { as, headers, body }: CallOptions = {}): Promise<Answer> {
    const authorization = as === undefined ? {} : { authorization: await this.authorization(as) };
    const all = { ...this.#headers, ...authorization, ...headers };
    const answer = await send(this.#port, method, path, all, body, this.#agent);
    this.#contract?.check(method, path, answer);
    return answer;
  }

  /** Reads a page of a listing. Resolves with its entries, and the path of the next page if there is one. */
  async page<T>(as: string, path: string): Promise<{ entries: T[]; next: string | undefined }> {
    const { status, headers, text } = await this.call('GET', path, { as });
    assert.equal(status, 200, text);
    const next = /^<([^>]+)>; rel="next"$/.exec(String(headers.link ?? ''))?.[1];
    return { entries: JSON.parse(text), next };
  }

  /** Reads the page at `first` and all after it. Resolves with the entries of each. */
  async pages<T>(as: string, first: string): Promise<T[][]> {
    const pages: T[][] = [];
    for (let path: string | undefined = first; path !== undefined; ) {
      const { entries, next }: { entries: T[]; next: string | undefined } = await this.page(as, path);
      pages.push(entries);
      path = next;
    }
    return pages;
  }

  /** Sends bytes on a new connection, and reads until the other end closes it. */
  async raw(bytes: string | Buffer, { end = false } = {}): Promise<Answer> {
    const beganAtMs = performance.now();
    const socket = connect(this.#port, '127.0.0.1');
    socket.write(bytes, 'latin1');
    if (end) socket.end();
    let text = '';
    for await (const chunk of socket.setEncoding('utf8')) text += chunk;
    return parseAnswer(text, performance.now() - beganAtMs);
  }
}

function begun<T>(part: T | undefined): T {
  if (part === undefined) throw new Error('the tests have not begun');
  return part;
}

/** Sends one request to a local port. */
export function send(
  port: number,
  method: string,
  path: string,
  headers: OutgoingHttpHeaders = {},
  body?: string | Buffer,
  agent?: Agent,
): Promise<Answer> {
  const beganAtMs = performance.now();
  return new Promise((resolve, reject) => {
    const chunked = body === undefined || 'transfer-encoding' in headers;
    const length = chunked ? {} : { 'content-length': Buffer.byteLength(body) };
    const options = { host: '127.0.0.1', port, method, path, headers: { ...length, ...headers } };
    const call = http.request({ ...options, ...(agent && { agent }) });
    call.once('error', reject);
    call.once('response', async (response) => {
      try {
        let text = '';
        for await (const chunk of response.setEncoding('utf8')) text += chunk;
        const { statusCode: status = 0, headers } = response;
        resolve({ status, headers, text, tookMs: performance.now() - beganAtMs });
      } catch (error) {
        reject(error);
      }
    });
    call.end(body);
  });
}

/** Returns the problem in an answer. Throws if the table of errors does not have it, or if it has no advice. */
export function problemIn({ status, headers, text }: Answer): Problem {
  assert.equal(headers['content-type'], 'application/problem+json', text);
  const problem = JSON.parse(text);
  const entry: { status: number; title: string } | undefined = ERRORS[problem.code as ErrorCode];
  assert.ok(entry, `${problem.code} is in the table of errors`);
  assert.deepEqual([problem.status, problem.title], [status, entry.title]);
  assert.equal(status, entry.status);
  assert.equal(problem.type, 'about:blank');
  assert.ok(problem.detail.length > 10, 'it says what to change');
  return problem;
}

export function basic(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}

function parseAnswer(text: string, tookMs: number): Answer {
  const [head = '', ...rest] = text.split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)]),
  );
  return { status: Number(statusLine.split(' ')[1]), headers, text: rest.join('\r\n\r\n'), tookMs };
}

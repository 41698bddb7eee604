import assert from 'node:assert/strict';
import { type Answer, basic, send } from '../../harness/http/api.ts';

/** An imitation of a client of Routemaster, from its source: it sends the same, and treats answers in the same way. */
abstract class Speaker {
  readonly #port: number;
  readonly #headers: Record<string, string>;

  constructor(url: string, headers: Record<string, string>) {
    this.#port = Number(new URL(url).port);
    this.#headers = headers;
  }

  protected call(
    method: string,
    path: string,
    body?: string,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    return send(this.#port, method, path, { ...this.#headers, ...headers }, body);
  }
}

type Subscription = {
  topics: string[];
  callback: string;
  uuid?: string;
  timeout?: number | null;
  max?: number | null;
};
type Fields = Record<string, unknown>;

const isSuccess = ({ status }: Answer) => status >= 200 && status < 300;
const json = { 'content-type': 'application/json' };

/** Does the same as Ruby's `Hash#fetch`, which raises if the key is missing. */
function fetched(fields: Fields, ...names: string[]): Fields {
  for (const name of names) assert.ok(name in fields, `key not found: "${name}"`);
  return fields;
}

/** The gem routemaster-client 3 by Faraday, which is also what the command `rtm` calls. */
export class RubyGem extends Speaker {
  constructor(url: string, uuid: string) {
    super(url, {
      authorization: basic(uuid, 'x'),
      'user-agent': 'Typhoeus - https://github.com/typhoeus/typhoeus',
    });
  }

  async configure(): Promise<void> {
    assert.ok(isSuccess(await this.call('GET', '/pulse')), 'cannot connect to bus');
  }

  /** Sends an event. With Sidekiq the gem always sends a timestamp too. */
  async sendEvent(
    type: string,
    topic: string,
    url: string,
    { t, data }: { t?: number; data?: unknown } = {},
  ) {
    const body = { type, url, timestamp: t ?? null, data: data ?? null };
    const answer = await this.call('POST', `/topics/${topic}`, JSON.stringify(body), json);
    assert.ok(isSuccess(answer), `event rejected (${answer.status})`);
  }

  async subscribe(options: Subscription): Promise<void> {
    const answer = await this.call('POST', '/subscription', JSON.stringify(options), json);
    assert.ok(isSuccess(answer), `subscribe rejected: ${answer.text}`);
  }

  async unsubscribe(topic: string): Promise<void> {
    assert.ok(isSuccess(await this.call('DELETE', `/subscriber/topics/${topic}`)), 'unsubscribe rejected');
  }

  async unsubscribeAll(): Promise<void> {
    assert.ok(isSuccess(await this.call('DELETE', '/subscriber')), 'unsubscribe all rejected');
  }

  async deleteTopic(topic: string): Promise<void> {
    assert.ok(isSuccess(await this.call('DELETE', `/topics/${topic}`)), 'failed to delete topic');
  }

  async monitorTopics(): Promise<Fields[]> {
    const answer = await this.call('GET', '/topics', undefined, json);
    assert.ok(isSuccess(answer), 'failed to connect to /topics');
    return JSON.parse(answer.text).map((each: Fields) => fetched(each, 'name', 'publisher', 'events'));
  }

  async monitorSubscriptions(): Promise<Fields[]> {
    const answer = await this.call('GET', '/subscriptions', undefined, json);
    assert.ok(isSuccess(answer), 'failed to connect to /subscriptions');
    const names = ['subscriber', 'uuid', 'callback', 'topics', 'events'];
    return JSON.parse(answer.text).map((each: Fields) => fetched(each, ...names));
  }

  /** Keeps the token alone: the gem knows of no secret. */
  async tokenAdd(name: string, token: string | null = null): Promise<string> {
    const answer = await this.call('POST', '/api_tokens', JSON.stringify({ name, token }), json);
    assert.ok(isSuccess(answer), `failed to add token: ${answer.text}`);
    return JSON.parse(answer.text).token;
  }

  async tokenDel(token: string): Promise<void> {
    assert.ok(isSuccess(await this.call('DELETE', `/api_tokens/${token}`)), 'failed to delete token');
  }

  async tokenList(): Promise<Map<unknown, unknown>> {
    const answer = await this.call('GET', '/api_tokens', undefined, json);
    assert.ok(isSuccess(answer), 'failed to list tokens');
    if (answer.status === 204) return new Map();
    return new Map(JSON.parse(answer.text).map(({ token, name }: Fields) => [token, name]));
  }
}

/** routemaster-client-go. It sends `null` as the body of every call that has none. */
export class GoClient extends Speaker {
  constructor(url: string, uuid: string) {
    super(url, {
      authorization: basic(uuid, ''),
      'user-agent': 'Go-http-client/1.1',
      'accept-encoding': 'gzip',
    });
  }

  async #do(method: string, path: string, body: unknown = null): Promise<Answer> {
    const answer = await this.call(method, path, JSON.stringify(body));
    assert.ok([200, 201, 204].includes(answer.status), `bad status code: ${answer.status}\n${answer.text}`);
    return answer;
  }

  async createToken(name: string): Promise<string> {
    return JSON.parse((await this.#do('POST', '/api_tokens', { name })).text).token;
  }

  async getTokens(): Promise<Fields[]> {
    return JSON.parse((await this.#do('GET', '/api_tokens')).text);
  }

  deleteToken = (token: string) => this.#do('DELETE', `/api_tokens/${token}`);
  subscribe = (subscription: Subscription) => this.#do('POST', '/subscription', subscription);
  unsubscribe = (topic: string) => this.#do('DELETE', `/subscriber/topics/${topic}`);
  unsubscribeAll = () => this.#do('DELETE', '/subscriber');
  deleteTopic = (topic: string) => this.#do('DELETE', `/topic/${topic}`);
  /** Leaves out `timestamp` and `data` if there are none. */
  push = (topic: string, event: Fields) => this.#do('POST', `/topics/${topic}`, event);

  async getTopics(): Promise<Fields[]> {
    return JSON.parse((await this.#do('GET', '/topics')).text);
  }
}

/** routemaster-client-ex. Each call takes a single status, and makes an error of any other. */
export class ElixirClient extends Speaker {
  constructor(url: string, token: string) {
    super(url, { authorization: basic(token, 'x'), 'user-agent': 'routemaster-client-ex' });
  }

  async #take(wanted: number, method: string, path: string, body?: unknown): Promise<unknown> {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const { status, text } = await this.call(method, path, sent, body ? json : {});
    if (status !== wanted) return { error: status };
    return text === '' ? 'ok' : JSON.parse(text);
  }

  sendEvent = (type: string, topic: string, url: string, timestamp = Date.now(), data: unknown = null) =>
    this.#take(200, 'POST', `/topics/${topic}`, { type, url, timestamp, data });
  subscribe = (subscription: Subscription) =>
    this.#take(204, 'POST', '/subscription', { max: null, timeout: null, ...subscription });
  unsubscribe = (topic: string) => this.#take(204, 'DELETE', `/subscriber/topics/${topic}`);
  unsubscribeAll = () => this.#take(204, 'DELETE', '/subscriber');
  deleteTopic = (topic: string) => this.#take(204, 'DELETE', `/topics/${topic}`);
  allTopics = () => this.#take(200, 'GET', '/topics');
  allSubscribers = () => this.#take(200, 'GET', '/subscribers');
}

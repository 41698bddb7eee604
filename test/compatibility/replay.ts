import assert from 'node:assert/strict';
import { type Answer, basic, problemIn, send } from '../../harness/http/api.ts';
import type { Receiver } from '../../harness/http/receiver.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { until } from '../../harness/until.ts';
import type { Exchange } from '../http/transcript.ts';

/** The answer that is expected. `answer` is JSON; empty if there is none, or if any is right. */
export interface Expected {
  status: number;
  answer: string;
}

/** A bus that speaks as Routemaster did, the tokens of its clients, and the subscriber's server. */
export class Replay {
  readonly #port: number;
  readonly #receiver: string;
  readonly #tokens = new Map<string, string>();

  constructor(port: number, receiver: Receiver) {
    this.#port = port;
    this.#receiver = new URL(receiver.callback).origin;
  }

  /** Makes the call and checks the answer. */
  async exchange(each: Exchange, expected: Expected): Promise<void> {
    const once = async () => this.#check(each, await this.#call(each), expected);
    if (each.method !== 'GET') return once();
    // Repeated until it is right: deliveries change the queues, and a removed client stays known for a second.
    await until(() => once().then(() => true), { everyMs: 50, what: each.line });
  }

  #check(each: Exchange, got: Answer, expected: Expected): void {
    const what = `${each.line}\nanswered ${got.status} ${got.text}`;
    assert.equal(got.status, expected.status, what);
    for (const [name, value] of Object.entries(got.status === each.status ? each.answerHeaders : {}))
      assert.equal(got.headers[name.toLowerCase()], this.#fill(value), name);
    if (got.status === 401) assert.match(String(got.headers['www-authenticate']), /\bBasic\b/);
    if (got.status >= 400) assert.equal(problemIn(got).status, got.status);
    else assert.ok(this.#fits(got, expected), what);
    if (each.path === '/api_tokens' && got.status === 201) this.#enter(JSON.parse(got.text));
  }

  #enter({ name, token }: { name: string; token: string }): void {
    this.#tokens.set(name, token);
  }

  #call({ user, method, path, headers, body }: Exchange): Promise<Answer> {
    const token = user === 'root' ? ROOT_KEY : (this.#tokens.get(user) ?? user);
    const authorization = user === '-' ? {} : { authorization: basic(token, 'x') };
    const given = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, this.#fill(value)]),
    );
    return send(
      this.#port,
      method,
      this.#fill(path),
      { ...authorization, host: '127.0.0.1', ...given },
      body === undefined ? undefined : this.#fill(body),
    );
  }

  #fill(text: string): string {
    return text
      .replaceAll('<url>', 'https://app.example.com/widgets/1')
      .replaceAll('<receiver with user:pw>', this.#receiver.replace('//', '//user:pw@'))
      .replaceAll('<receiver>', this.#receiver)
      .replaceAll('<base64 of the token of pub:>', btoa(`${this.#tokens.get('pub')}:`))
      .replaceAll(/<(\d+)×(.)>/g, (_, n: string, what: string) => what.repeat(Number(n)))
      .replaceAll(/<(\w+)>/g, (mark, name: string) => this.#tokens.get(name) ?? mark);
  }

  #fits({ status, text }: Answer, expected: Expected): boolean {
    if (expected.answer === '') return true;
    // The bus makes a new token, so only its form can be checked.
    const made = status === 201 && expected.answer.startsWith('{"token":"<');
    const wanted = JSON.parse(this.#fill(expected.answer));
    return has(JSON.parse(text), made ? { ...wanted, token: /^[a-z0-9]+--[0-9a-f]{32}$/ } : wanted);
  }
}

/**
 * Returns true if `value` has all of `recorded`. `…` stands for any text. Routemaster showed unknown values as null.
 */
export function has(value: unknown, recorded: unknown): boolean {
  if (recorded instanceof RegExp) return recorded.test(String(value));
  if (typeof recorded === 'string')
    return new RegExp(`^${recorded.split('…').map(RegExp.escape).join('.*')}$`).test(String(value));
  if (Array.isArray(recorded)) {
    const each = (one: unknown) => Array.isArray(value) && value.some((other) => has(other, one));
    return Array.isArray(value) && value.length === recorded.length && recorded.every(each);
  }
  if (typeof recorded !== 'object' || recorded === null) return value === recorded;
  return Object.entries(recorded).every(([name, each]) => {
    const there = (value as Record<string, unknown> | null)?.[name];
    return (
      has(there, each) ||
      (each === null && (name === 'sent' || name === 'oldest') && typeof there === 'number')
    );
  });
}

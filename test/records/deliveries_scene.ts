// What the tests that on_one_api.test.ts runs share: a web process, its subscribers, and calls of GET /deliveries.
import assert from 'node:assert/strict';
import { afterEach, beforeEach } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { longName, shortName } from '../../harness/scripts/names.ts';
import type { Delivery, Wait } from '../../src/records/delivery.ts';

export const HOUR_MS = 3_600_000;

export const api = new Api();
export const bus = new Bus(() => api.store);

interface Whole extends Delivery, Partial<Wait> {
  events?: { id: string }[];
}

beforeEach(() => api.reset());
afterEach(() => assertConsistent(api.store));

export async function read<T = Delivery[]>(as: string, path: string): Promise<T> {
  const { status, text } = await api.call('GET', path, { as });
  assert.equal(status, 200, `${path}: ${text}`);
  return JSON.parse(text) as T;
}
export const one = (as: string, name: string) => read<Whole>(as, `/deliveries/${longName(name)}`);
export const namesIn = (deliveries: Delivery[]) => deliveries.map(({ id }) => shortName(id));
export const statesIn = (deliveries: Delivery[]) =>
  Object.fromEntries(deliveries.map(({ id, state }) => [shortName(id), state]));

export const event = (id: string, topic = 'widgets') =>
  `{"id":"${id}","topic":"${topic}","type":"noop","url":"https://a.example/","t":1}`;

/** Subscribes the client `name`. Resolves with its token. */
export async function subscriber(name: string, settings = {}): Promise<string> {
  const token = await api.token(name);
  await bus.subscribe(token, { max: 1, ...settings });
  return token;
}

export const attempt = (at: number, more = {}) => ({
  ...{ at, status: 503, duration_ms: 7, reason: 'HTTP 503', answer: 'no' },
  ...more,
});

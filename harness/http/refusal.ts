import assert from 'node:assert/strict';
import type { ErrorCode } from '../../src/errors.ts';
import { snapshot } from '../scripts/invariants.ts';
import { type Answer, type Api, problemIn } from './api.ts';

export interface Refusal {
  code: ErrorCode;
  /** The problem's `detail`. */
  detail: RegExp;
  index?: number;
  field?: string;
}

/** Checks that a call is refused like this, stores nothing, and leaves the server working. */
export async function assertRefused(api: Api, call: () => Promise<Answer>, expected: Refusal): Promise<void> {
  const { detail: says, ...members } = expected;
  const before = await stored(api);
  const answer = await call();
  const { code, detail, index, field } = problemIn(answer);
  assert.deepEqual({ code, index, field }, { index: undefined, field: undefined, ...members }, detail);
  assert.match(detail, says);
  assert.ok(answer.status >= 400 && answer.status < 500);
  assert.deepEqual(await stored(api), before, 'nothing is stored');
  await assertWorks(api);
}

/**
 * Returns a `snapshot`, without the times at which clients were last seen. A web process stores such a time some
 * seconds after a call, even after a refused one.
 */
export async function stored({ store }: Pick<Api, 'store'>): Promise<Record<string, string>> {
  const { redis, keys } = store;
  const all = await snapshot(store);
  for (const key of Object.keys(all).filter((each) => each.startsWith(keys.api_token('')))) {
    const { seen_at: _, ...client } = await redis.hgetall(key);
    all[key] = JSON.stringify(client);
  }
  return all;
}

/** Publishes an event as `pub`. */
export async function assertWorks(api: Api): Promise<void> {
  const body = '{"type":"noop","url":"https://app.example.com/1"}';
  const { status, text } = await api.call('POST', '/topics/widgets', { as: 'pub', body });
  assert.equal(status, 204, text);
}

import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Api, basic, problemIn } from '../../../harness/http/api.ts';
import { until } from '../../../harness/until.ts';

// A client can learn nothing of another, and do nothing to it.
const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const OLD_TOKEN = 'old--0123456789abcdef0123456789abcdef';
/** The port of a second web process, which remembers clients for itself. */
let otherPort: number;
const api = new Api({
  prepare: async () => {
    otherPort = await api.another();
  },
});

beforeEach(async () => {
  await api.reset();
  await api.token('victim');
  await api.token('attacker');
  const body = JSON.stringify({ name: 'old', token: OLD_TOKEN });
  await api.call('POST', '/api_tokens', { as: 'root', body });
  api.enter({ name: 'old', token: OLD_TOKEN });
  for (const as of ['victim', 'old']) {
    const subscription = {
      topics: [`${as}s_topic`],
      callback: `https://${as}.example.com/hidden`,
      uuid: 'hidden',
    };
    assert.equal(
      (await api.call('POST', '/subscription', { as, body: JSON.stringify(subscription) })).status,
      204,
    );
    assert.equal((await api.call('POST', `/topics/${as}s_topic`, { as, body: EVENT })).status, 204);
  }
});

describe('a client', () => {
  test('sees its own subscriber and dead letters only', async () => {
    for (const path of ['/subscriptions', '/subscribers', '/dead_letters']) {
      const { status, text } = await api.call('GET', path, { as: 'attacker' });
      assert.deepEqual([status, text], [200, '[]'], path);
    }
    const named = await api.call('GET', `/dead_letters?subscriber=${await api.token('victim')}`, {
      as: 'attacker',
    });
    assert.equal(problemIn(named).code, 'bad_query');
  });

  test('sees nowhere a secret, a callback, a uuid, or a token that is a credential', async () => {
    const seen: string[] = [];
    for (const path of ['/topics', '/metrics', '/subscriptions', '/dead_letters', '/api_tokens', '/pulse'])
      seen.push((await api.call('GET', path, { as: 'attacker' })).text);
    assert.doesNotMatch(seen.join('\n'), new RegExp(`${OLD_TOKEN}|hidden|0123456789abcdef`));
    assert.match(seen.join('\n'), /"old\.[0-9a-f]{16}"/);
  });

  test('changes nothing of another', async () => {
    const victim = await api.token('victim');
    const calls = [
      ['DELETE', '/topics/victims_topic', 'forbidden'],
      ['DELETE', '/topic/victims_topic', 'forbidden'],
      ['POST', '/topics/victims_topic', 'topic_claimed'],
      ['DELETE', '/subscriber', 'subscriber_not_found'],
      ['DELETE', '/subscriber/topics/victims_topic', 'subscriber_not_found'],
      ['DELETE', `/subscribers/${victim}`, 'forbidden'],
      ['GET', '/api_tokens', 'forbidden'],
      ['POST', '/api_tokens', 'forbidden'],
      ['DELETE', `/api_tokens/${victim}`, 'forbidden'],
      ['POST', `/api_tokens/${victim}/secret`, 'forbidden'],
      ['POST', `/api_tokens/${await api.token('attacker')}/secret`, 'forbidden'],
      ['DELETE', `/dead_letters?subscriber=${victim}`, 'bad_query'],
      ['POST', `/dead_letters/retry?subscriber=${victim}`, 'bad_query'],
      ['DELETE', '/dead_letters/AAAAAAAAAAAAAAAAAAAA', 'dead_letter_not_found'],
    ] as const;
    const before = await api.call('GET', '/subscriptions', { as: 'root' });
    for (const [method, path, code] of calls) {
      const answer = await api.call(method, path, {
        as: 'attacker',
        ...(method === 'POST' && { body: EVENT }),
      });
      assert.equal(problemIn(answer).code, code, `${method} ${path}`);
    }
    assert.equal((await api.call('GET', '/subscriptions', { as: 'root' })).text, before.text);
    assert.equal(
      (await api.call('POST', '/topics/victims_topic', { as: 'victim', body: EVENT })).status,
      204,
    );
  });
});

test('a client that was removed a moment ago, where it is known still, cannot leave a subscriber behind', async () => {
  const authorization = await api.authorization('victim');
  const token = await api.token('victim');
  const call = (method: string, path: string, body?: string) =>
    fetch(`http://127.0.0.1:${otherPort}${path}`, {
      method,
      headers: { authorization },
      ...(body && { body }),
    });
  await until(async () => (await call('GET', '/topics')).status === 200);
  await api.call('DELETE', `/api_tokens/${token}`, { as: 'root' });
  const subscription = { topics: ['a'], callback: 'https://victim.example.com/', uuid: 'u' };
  const answer = await call('POST', '/subscription', JSON.stringify(subscription));
  // 403, or 401 if this took more than a second, after which a removed client is not known any more.
  assert.ok([401, 403].includes(answer.status), String(answer.status));
  assert.equal(await api.store.redis.sismember('subscribers', token), 0);
  assert.equal(await api.store.redis.sismember('subscribers:a', token), 0);
});

test('credentials of one client are not those of another', async () => {
  const attacker = await api.authorization('attacker');
  const [, secret = ''] = Buffer.from(attacker.slice('Basic '.length), 'base64').toString().split(':');
  const headers = { authorization: basic(await api.token('victim'), secret) };
  assert.equal(problemIn(await api.call('GET', '/topics', { headers })).code, 'unauthenticated');
});

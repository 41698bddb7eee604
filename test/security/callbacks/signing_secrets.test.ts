import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Api } from '../../../harness/http/api.ts';
import { assertRefused, assertWorks } from '../../../harness/http/refusal.ts';
import { newSecret } from '../../../src/subscribing/signing_keys.ts';

const api = new Api({ env: { ROUTEMASTER_LOG_LEVEL: 'trace' }, prepare: assertWorks });
const OURS = 'https://sub.example.com/events';

const subscribe = (members: object = {}) => {
  const body = JSON.stringify({ topics: ['widgets'], callback: OURS, uuid: 'u', ...members });
  return api.call('POST', '/subscription', { as: 'sub', body });
};
const stored = async () => {
  const { redis, keys } = api.store;
  return (await redis.hget(keys.subscriber(await api.token('sub')), 'signing'))?.split(' ') ?? [];
};
const secretsOf = async () => (await stored()).map((entry) => entry.split('@')[0]);

beforeEach(async () => {
  await api.call('DELETE', '/subscriber', { as: 'sub' });
});

describe('a signing secret', () => {
  test('is made on request, and shown only in that answer', async () => {
    const { status, headers, text } = await subscribe({ signing_secret: true });
    assert.equal(status, 200);
    assert.equal(headers['cache-control'], 'no-store');
    const { signing_secret, ...rest } = JSON.parse(text);
    assert.match(signing_secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.deepEqual([rest, await secretsOf()], [{}, [signing_secret]]);
  });

  test('may be the subscriber’s own, and is not shown then', async () => {
    const own = newSecret();
    const { status, text } = await subscribe({ signing_secret: own });
    assert.deepEqual([status, text, await stored()], [204, '', [own]]);
  });

  test('may be a key pair; the private key is never shown', async () => {
    const { status, text } = await subscribe({ signing_secret: 'ed25519' });
    assert.equal(status, 200);
    assert.deepEqual(Object.keys(JSON.parse(text)), ['public_key']);
    assert.match(JSON.parse(text).public_key, /^whpk_[A-Za-z0-9+/]{43}=$/);
    const [key = ''] = await stored();
    assert.match(key, /^whsk_[A-Za-z0-9+/]{43}=$/);
  });

  test('stays if it is left out or null, and setting it again changes nothing', async () => {
    const own = newSecret();
    await subscribe({ signing_secret: own });
    for (const again of [{}, { signing_secret: null }, { signing_secret: own }]) {
      assert.equal((await subscribe(again)).status, 204);
      assert.deepEqual(await stored(), [own]);
    }
  });

  test('keeps signing for a day, beside the new one, when it is replaced', async () => {
    const [first, second] = [newSecret(), newSecret()];
    await subscribe({ signing_secret: first });
    const before = Date.now();
    await subscribe({ signing_secret: second });
    const [newest, old = ''] = await stored();
    assert.equal(newest, second);
    const [secret, untilMs] = old.split('@');
    assert.equal(secret, first);
    const left = Number(untilMs) - before;
    assert.ok(left > 86_000_000 && left < 87_000_000, `${left} ms`);
  });

  test('is removed at once with false, and when the subscriber is removed', async () => {
    await subscribe({ signing_secret: true });
    await subscribe({ signing_secret: true });
    assert.equal((await subscribe({ signing_secret: false })).status, 204);
    assert.deepEqual(await stored(), []);
    await subscribe({ signing_secret: true });
    await api.call('DELETE', '/subscriber', { as: 'sub' });
    await subscribe();
    assert.deepEqual(await stored(), []);
  });

  const bytes = Buffer.alloc(32, 255);
  const urlSafe = `whsec_${bytes.toString('base64url')}=`;
  const unpadded = `whsec_${bytes.toString('base64').slice(0, -1)}`;
  const tooLong = `whsec_${'A'.repeat(1000)}`;
  for (const bad of ['', 'true', 7, {}, [], 'hunter2', 'whsec_hunter2', tooLong, urlSafe, unpadded]) {
    test(`is refused without being quoted: ${JSON.stringify(bad).slice(0, 20)}`, async () => {
      await subscribe();
      await assertRefused(api, () => subscribe({ signing_secret: bad }), {
        code: 'bad_subscription',
        field: 'signing_secret',
        detail: /must be true, "ed25519", false, or whsec_ .* in Base64 with \+, \/ and padding$/,
      });
    });
  }
});

test('a secret is never shown: in listings, figures, errors or logs', async () => {
  const own = newSecret();
  await subscribe({ signing_secret: own });
  const { text } = await subscribe({ signing_secret: true });
  const secrets = [own, JSON.parse(text).signing_secret].map((secret) => secret.slice(6));
  const shown: string[] = [];
  for (const as of ['sub', 'root', 'pub'])
    for (const path of [
      '/subscriptions',
      '/subscribers',
      '/topics',
      '/metrics',
      '/dead_letters',
      '/api_tokens',
    ])
      shown.push((await api.call('GET', path, { as })).text);
  // The call fails within the bus, with the secret among its arguments: no log may have it.
  const { redis, keys } = api.store;
  await redis.set(keys.topic_subscribers('broken'), 'not a set');
  const failed = await subscribe({ topics: ['broken'], signing_secret: own });
  assert.equal(failed.status, 500);
  await redis.del(keys.topic_subscribers('broken'));
  shown.push(failed.text, (await subscribe({ signing_secret: `${own}@` })).text, api.web.output);
  for (const each of shown) for (const secret of secrets) assert.ok(!each.includes(secret), each);
});

test('a callback with credentials, from a Ruby Routemaster, is listed without them', async () => {
  await subscribe();
  const { redis, keys } = api.store;
  const callbacks: Record<string, string> = {
    'https://user:hunter2@sub.example.com/a?b=c@d': 'https://sub.example.com/a?b=c@d',
    'https://hunter2@sub.example.com': 'https://sub.example.com',
    'https:\\\\user:hunter2@sub.example.com\\a': 'https:\\\\sub.example.com\\a',
    'https://sub.example.com/a@b': 'https://sub.example.com/a@b',
  };
  for (const [callback, listed] of Object.entries(callbacks)) {
    await redis.hset(keys.subscriber(await api.token('sub')), { callback });
    const { text } = await api.call('GET', '/subscriptions', { as: 'root' });
    assert.equal(JSON.parse(text)[0].callback, listed);
  }
});

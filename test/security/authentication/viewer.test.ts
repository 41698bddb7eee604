import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { Api, basic, problemIn } from '../../../harness/http/api.ts';
import { stored } from '../../../harness/http/refusal.ts';
import { ROOT_KEY, VIEWER_KEY } from '../../../harness/processes/bus_environment.ts';
import { routeTable } from '../../../harness/route_table.ts';
import { buryAll } from '../../../harness/scripts/dead_letters.ts';
import { readConfig } from '../../../src/config.ts';
import { answerParameters, challengeFor, header } from '../../authentication/digest_client.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const OLD_TOKEN = 'old--0123456789abcdef0123456789abcdef';
const LETTER = 'A96w5uKHOM8kSsHw----';

const api = new Api();

/** Returns the calls of the route table, with a value for each parameter. */
const calls = () =>
  routeTable().map(({ method, path, roles }) => ({
    ...{ method, roles },
    path: path
      .replace(/^\/(joins|triggers)\/:name$/, '$&?client=sub')
      .replace(':name', 'widgets')
      .replace(':id', LETTER)
      .replace(':token', 'sub'),
  }));

beforeEach(() => api.reset());

describe('a viewer', () => {
  test('may GET whatever root may, and call nothing else', async () => {
    await api.token('sub');
    const guarded = calls().filter(({ roles }) => roles.length > 0);
    const [asking, others] = [true, false].map((asks) =>
      guarded.filter(({ method, roles }) => asks === (method === 'GET' && roles.includes('root'))),
    );
    for (const { method, path, roles } of asking ?? []) {
      assert.ok(roles.includes('viewer'), path);
      const { status } = await api.call(method, path, { as: 'viewer' });
      assert.ok([200, 204, 404].includes(status), `${method} ${path}: ${status}`);
    }
    const before = await stored(api);
    for (const { method, path, roles } of others ?? []) {
      assert.ok(!roles.includes('viewer'), path);
      const body = method === 'POST' ? { body: EVENT } : {};
      const answer = await api.call(method, path, { as: 'viewer', ...body });
      assert.equal(problemIn(answer).code, 'forbidden', `${method} ${path}`);
    }
    assert.deepEqual(await stored(api), before);
  });

  test('is let in by Digest as `viewer`, with either algorithm, and by nothing else than its key', async () => {
    const call = (authorization: string, method = 'GET') =>
      api.call(method, '/topics', { headers: { authorization } });
    for (const algorithm of ['SHA-256', 'MD5'])
      for (const [secret, expected] of [
        [VIEWER_KEY, 200],
        [ROOT_KEY, 401],
        ['', 401],
      ] as const) {
        const { headers } = await api.call('GET', '/topics');
        const challenges = [...(headers['www-authenticate'] ?? '').split(/, (?=Digest|Basic)/)];
        const challenge = challengeFor(
          algorithm,
          challenges.filter((each) => each.startsWith('Digest')),
        );
        const answer = answerParameters(challenge, { user: 'viewer', secret, uri: '/topics' });
        assert.equal((await call(header(answer))).status, expected, `${algorithm} ${secret}`);
      }
    assert.equal((await call(basic('viewer', VIEWER_KEY))).status, 401);
    assert.equal((await call(basic(VIEWER_KEY.slice(1), ''))).status, 401);
    assert.equal((await call(basic(VIEWER_KEY, 'anything'))).status, 200);
  });

  test('whose key is wrong is logged and counted as others are, without the key', async () => {
    await api.call('GET', '/topics', { headers: { authorization: basic('not-the-viewer-key', '') } });
    await api.web.prints(/"reason":"unknown_user".*"msg":"authentication failed"/);
    assert.doesNotMatch(api.web.output, /not-the-viewer-key|key-of-viewers/);
    const keys = (await api.store.redis.keys('*')).filter((key) => /viewer/.test(key));
    assert.deepEqual(keys.join(), '');
  });
});

describe('a viewer sees no secret', () => {
  beforeEach(async () => {
    const body = JSON.stringify({ name: 'old', token: OLD_TOKEN });
    await api.call('POST', '/api_tokens', { as: 'root', body });
    api.enter({ name: 'old', token: OLD_TOKEN });
    const subscription = {
      ...{ topics: ['widgets'], callback: 'https://old.example.com/events', uuid: 'hidden-uuid', max: 1 },
      signing_secret: `whsec_${Buffer.from('hidden-signing-secret-123').toString('base64')}`,
    };
    const subscribed = await api.call('POST', '/subscription', {
      ...{ as: 'old', body: JSON.stringify(subscription) },
    });
    assert.equal(subscribed.status, 204, subscribed.text);
    assert.equal((await api.call('POST', '/topics/widgets', { as: 'old', body: EVENT })).status, 204);
    await buryAll(api.store);
  });
  afterEach(() => api.reset());

  const read = async (path: string) => JSON.parse((await api.call('GET', path, { as: 'viewer' })).text);

  test('in any listing, nor a token that is a credential: it is shown by its public name', async () => {
    const [letter] = await read('/dead_letters');
    const seen: string[] = [];
    for (const path of [
      ...['/topics', '/topics?limit=9', '/subscriptions', '/subscribers?limit=9', '/api_tokens'],
      ...['/api_tokens?limit=9', '/dead_letters', `/dead_letters/${letter.id}`, '/metrics'],
    ]) {
      const { status, text, headers } = await api.call('GET', path, { as: 'viewer' });
      assert.equal(status, 200, path);
      assert.doesNotMatch(text + JSON.stringify(headers), /0123456789abcdef|hidden|whsec|aGlkZGVu/, path);
      if (path !== '/metrics') seen.push(/"(old\.[0-9a-f]{16})"/.exec(text)?.[1] ?? path);
    }
    assert.equal(new Set(seen).size, 1, String(seen));
  });

  test('nor while dead letters are retried in bulk: in the list of jobs, and in the console', async () => {
    const headers = { 'sec-fetch-site': 'same-origin' };
    const login = async (user: string, password: string) => {
      const body = new URLSearchParams({ user, password }).toString();
      const entered = await api.call('POST', '/console/login', { headers, body });
      const [cookie = ''] = entered.headers['set-cookie']?.[0]?.split(';') ?? [];
      return { ...headers, cookie };
    };
    for (const [user, key] of [
      ['root', ROOT_KEY],
      [OLD_TOKEN, ''],
    ] as const) {
      const session = await login(user, key);
      const { text } = await api.call('GET', '/console/dead_letters', { headers: session });
      const [, form_token = ''] = /name="form_token" value="([^"]+)"/.exec(text) ?? [];
      const body = new URLSearchParams({ form_token, subscriber: OLD_TOKEN }).toString();
      const begun = await api.call('POST', '/console/dead_letters/bulk', { headers: session, body });
      assert.equal(begun.headers.location, '/console/dead_letters/bulk');
    }
    const jobs: { name: string; id: string; arguments: string[] }[] = await read('/jobs?queue=aux');
    const bulks = jobs.filter(({ name }) => name === 'bulk');
    assert.deepEqual(bulks.map(({ arguments: [owner] }) => owner?.replace(/\.\w+$/, '')).sort(), [
      ':root',
      'old',
    ]);
    for (const { id } of bulks) assert.ok(!Buffer.from(id, 'base64url').includes(OLD_TOKEN.slice(5)), id);
    const session = await login('viewer', VIEWER_KEY);
    for (const path of ['dead_letters/bulk', 'dead_letters', 'jobs', 'audit']) {
      const { status, text } = await api.call('GET', `/console/${path}`, { headers: session });
      assert.equal(status, 200, path);
      assert.match(text, /old\.[0-9a-f]{16}/, path);
      assert.ok(!text.includes(OLD_TOKEN), path);
    }
  });

  test('and asks for the dead letters of a subscriber by its public name', async () => {
    const [{ subscriber }] = await read('/subscriptions');
    const [letter] = await read('/dead_letters');
    assert.deepEqual(await read(`/dead_letters?subscriber=${subscriber}`), [letter]);
    // A viewer must not learn whether a token exists. Otherwise it could find a token by guessing.
    assert.deepEqual(await read(`/dead_letters?subscriber=${OLD_TOKEN}`), []);
    assert.deepEqual(await read(`/dead_letters?subscriber=unknown${subscriber.slice(3)}`), []);
    await api.call('POST', '/subscription', {
      ...{ as: 'new', body: '{"topics":["widgets"],"callback":"https://new.example.com/","max":1}' },
    });
    await api.call('POST', '/topics/widgets', { as: 'old', body: EVENT });
    await buryAll(api.store);
    const own = await read(`/dead_letters?subscriber=${await api.token('new')}`);
    assert.deepEqual(
      own.map((each: { subscriber: string }) => each.subscriber),
      [await api.token('new')],
    );
  });
});

describe('a viewer key', () => {
  const env = { ROUTEMASTER_ROOT_KEY: 'Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5' };
  const read = (key: string, more = {}) => readConfig({ ...env, ROUTEMASTER_VIEWER_KEY: key, ...more });
  const production = { NODE_ENV: 'production' };

  test('is optional, and then refused where a root key would be', () => {
    assert.equal(readConfig(env).viewerKeys, undefined);
    assert.equal(read('').viewerKeys, undefined);
    assert.deepEqual(read('dev').viewerKeys, ['dev']);
    for (const [key, reason] of [
      ['0f0f0f0f0f0f0f0', /ROUTEMASTER_VIEWER_KEY has fewer than 16 characters/],
      ['change-me-change-me-change-me', /ROUTEMASTER_VIEWER_KEY looks like a placeholder/],
      ['with:colon-0f0f0f0f0f0f0f0f', /ROUTEMASTER_VIEWER_KEY must have no colon/],
    ] as const)
      assert.throws(
        () => read(key, production),
        (error: Error) => reason.test(error.message) && !error.message.includes(key),
      );
    assert.deepEqual(read('0f'.repeat(24), production).viewerKeys, ['0f'.repeat(24)]);
  });

  test('must open nothing else', () => {
    assert.throws(() => read(env.ROUTEMASTER_ROOT_KEY), /ROUTEMASTER_VIEWER_KEY equals ROUTEMASTER_ROOT_KEY/);
    assert.throws(
      () => read('shop', { ROUTEMASTER_CLIENTS: 'billing shop' }),
      /a token of ROUTEMASTER_CLIENTS/,
    );
  });
});

describe('without a viewer key', () => {
  const without = new Api({ env: { ROUTEMASTER_VIEWER_KEY: '' } });
  test('there is no viewer, and no answer speaks of one', async () => {
    const answer = await without.call('GET', '/topics', { as: 'viewer' });
    assert.equal(problemIn(answer).code, 'unauthenticated');
    assert.doesNotMatch(answer.text, /viewer/);
  });
});

describe('in compatibility mode', () => {
  const ruby = new Api({ env: { ROUTEMASTER_COMPATIBILITY: 'routemaster' } });
  test('a viewer that would change something is answered 403 too', async () => {
    const answer = await ruby.call('DELETE', '/topics/widgets', { as: 'viewer' });
    assert.equal(problemIn(answer).code, 'forbidden');
  });
});

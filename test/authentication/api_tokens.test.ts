import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import { beforeEach, describe, test } from 'node:test';
import { aroundTests } from '../../harness/around_tests.ts';
import { buildAuthentication } from '../../harness/http/authentication.ts';
import { pipelineParts } from '../../harness/http/pipeline.ts';
import { listenLocally } from '../../harness/processes/ports.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { apiTokensApi } from '../../src/authentication/api_tokens_api.ts';
import { Clients } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { createApp } from '../../src/http/app.ts';
import { createLog } from '../../src/log.ts';
import { DIALECTS } from '../../src/routing/dialect.ts';
import { Pages } from '../../src/routing/paging.ts';
import { basic } from './guarded_server.ts';

const ROOT_KEY = 'root_key_0123';

describe('/api_tokens', () => {
  const redis = new TestStore();
  let server: Server;
  let port: number;
  let removedSubscribers: string[];

  aroundTests(
    async () => {
      const log = createLog('silent', {});
      const clients = new Clients(redis.store, ['fixed', 'Fixed Too']);
      const directory = new ClientDirectory(clients);
      const authentication = buildAuthentication({
        ...{ rootKey: ROOT_KEY, clients: directory, log, store: redis.store },
      });
      const nameKey = new NameKey(redis.store);
      const pages = new Pages(nameKey);
      const publicNames = new PublicNames(directory, nameKey);
      const subscribers = { remove: async (token: string) => removedSubscribers.push(token) };
      const joins = { tokens: async (client: string) => [`join:ready:${client}`] };
      const dialect = DIALECTS.none;
      const table = apiTokensApi({
        ...{ clients, pages, publicNames, config: { minTokenLength: 1 }, subscribers, joins },
        ...{ authentication, dialect },
      });
      server = createServer(createApp(table, pipelineParts({ authentication, log })));
      port = await listenLocally(server);
    },
    () => server.close(),
  );
  beforeEach(async () => {
    await redis.flush();
    removedSubscribers = [];
  });

  async function call(method: string, path: string, body?: string, authorization = basic(ROOT_KEY, '')) {
    const url = `http://127.0.0.1:${port}${path}`;
    const response = await fetch(url, {
      method,
      headers: { authorization },
      ...(body !== undefined && { body }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : JSON.parse(text),
    };
  }
  const post = (body: unknown) => call('POST', '/api_tokens', JSON.stringify(body));

  test('GET answers 204 while there is no client', async () => {
    const { status, body } = await call('GET', '/api_tokens');
    assert.deepEqual([status, body], [204, undefined]);
  });

  test('POST of a name makes a client, and shows its secret only in this answer', async () => {
    const made = await post({ name: 'billing' });
    assert.equal(made.status, 201);
    assert.deepEqual(Object.keys(made.body), ['token', 'name', 'secret']);
    assert.equal(made.body.name, 'billing');
    assert.equal(made.headers.get('cache-control'), 'no-store');
    const [listed] = (await call('GET', '/api_tokens')).body;
    assert.deepEqual([listed.token, listed.name, listed.secret], [made.body.token, 'billing', undefined]);
  });

  test('the token and secret in the answer of POST work at once', async () => {
    const { token, secret } = (await post({ name: 'billing' })).body;
    assert.equal((await call('GET', '/api_tokens', undefined, basic(token, secret))).status, 403);
    assert.equal((await call('GET', '/api_tokens', undefined, basic(token, 'x'))).status, 401);
  });

  test('POST of a name and a token makes a token-only client; a second POST renames it', async () => {
    const made = await post({ name: 'other', token: 'other--0001' });
    assert.deepEqual([made.status, made.body], [201, { token: 'other--0001', name: 'other' }]);
    const renamed = await post({ name: 'other_two', token: 'other--0001' });
    assert.deepEqual([renamed.status, renamed.body], [201, { token: 'other--0001', name: 'other_two' }]);
    const { body } = await call('GET', '/api_tokens');
    const [{ created_at: _, ...listed }, ...more] = body;
    const times = { secret_at: null, last_seen_at: null };
    assert.deepEqual([listed, more], [{ token: 'other--0001', name: 'other_two', ...times }, []]);
  });

  test('GET says when a client and its secret were made, and when it called last', async () => {
    const { token } = (await post({ name: 'billing' })).body;
    const times = async () => (await call('GET', '/api_tokens')).body[0];
    const made = await times();
    assert.deepEqual([made.secret_at, made.last_seen_at], [made.created_at, null]);
    await redis.store.redis.hset(redis.store.keys.api_token(token), 'created_at', 1);
    assert.deepEqual([(await times()).created_at, (await times()).secret_at], [1, 1]);
    await call('POST', `/api_tokens/${token}/secret`, '{}');
    await redis.store.run('note_seen', { tokens: [token, 'nobody'] });
    const { created_at, secret_at, last_seen_at } = await times();
    assert.ok(created_at === 1 && secret_at >= made.created_at && last_seen_at >= secret_at);
    assert.equal(await redis.store.redis.exists(redis.store.keys.api_token('nobody')), 0);
  });

  test("a token in Routemaster's form, and one of 64 characters, is taken", async () => {
    for (const token of [`sub--${'0123456789abcdef'.repeat(2)}`, 'a'.repeat(64), '-', '_']) {
      assert.equal((await post({ name: 'n'.repeat(64), token })).status, 201);
    }
  });

  describe('POST refuses, saying what to change, and stores nothing:', () => {
    const bad: [body: unknown, field: string | undefined, detail: RegExp][] = [
      [{ name: 'Pub' }, 'name', /a-z, 0-9, _/],
      [{ name: '' }, 'name', /1 to 42 characters.*1 to 30 without a secret, or 64 with a token/],
      [{ name: 'a.b' }, 'name', /a-z, 0-9, _, -/],
      [{ name: 'pub\n' }, 'name', /a-z, 0-9, _/],
      [{ name: 3 }, 'name', /must be a string/],
      [{ name: null }, 'name', /must be a string/],
      [{}, 'name', /must be a string/],
      [{ name: 'a'.repeat(65) }, 'name', /1 to 42/],
      [{ name: 'a'.repeat(43) }, 'name', /1 to 42/],
      [{ name: 'pub', token: 'A b' }, 'token', /a-z, 0-9, _, -/],
      [{ name: 'pub', token: '' }, 'token', /1 to 64/],
      [{ name: 'pub', token: 'a'.repeat(65) }, 'token', /1 to 64/],
      [{ name: 'pub', token: 7 }, 'token', /must be a string/],
      [{ name: 'pub', token: 'root' }, 'token', /reserved/],
      [{ name: 'pub', token: 'viewer' }, 'token', /reserved/],
      [{ name: 'pub', token: ROOT_KEY }, 'token', /reserved/],
      [{ name: 'pub', token: 'fixed', publish: [] }, 'token', /ROUTEMASTER_CLIENTS sets this/],
      [{ name: 'pub', token: 'fixed', subscribe: ['a'] }, 'token', /ROUTEMASTER_CLIENTS sets this/],
      [[], undefined, /send an object/],
      [null, undefined, /send an object/],
      ['abc', undefined, /send an object/],
    ];
    for (const [body, field, detail] of bad) {
      test(JSON.stringify(body), async () => {
        const answer = await post(body);
        assert.equal(answer.status, 400);
        assert.equal(answer.headers.get('content-type'), 'application/problem+json');
        assert.deepEqual([answer.body.code, answer.body.field], ['bad_client', field]);
        assert.match(answer.body.detail, detail);
        assert.deepEqual(await redis.store.redis.keys('*'), []);
      });
    }

    test('a body that is not JSON', async () => {
      for (const body of ['{"name":', '']) {
        const answer = await call('POST', '/api_tokens', body);
        assert.deepEqual([answer.status, answer.body.code], [400, 'bad_body']);
      }
    });
  });

  test('a name of 42 characters leaves room for the rest of the token', async () => {
    const { status, body } = await post({ name: 'a'.repeat(42) });
    assert.equal(status, 201);
    assert.equal(body.token.length, 64);
  });

  test('DELETE removes a client, its subscriber and its joins', async () => {
    const { token } = (await post({ name: 'billing' })).body;
    assert.equal((await call('DELETE', `/api_tokens/${token}`)).status, 204);
    assert.deepEqual(removedSubscribers, [token, `join:ready:${token}`]);
    assert.equal((await call('GET', '/api_tokens')).status, 204);
    assert.deepEqual(await redis.store.redis.keys('*'), []);
  });

  test('DELETE of an unknown client succeeds, and removes what a removal left', async () => {
    assert.equal((await call('DELETE', '/api_tokens/does-not-exist')).status, 204);
    assert.deepEqual(removedSubscribers, ['does-not-exist', 'join:ready:does-not-exist']);
  });

  test('DELETE refuses a malformed token and a token of ROUTEMASTER_CLIENTS', async () => {
    const refused: [path: string, detail: RegExp][] = [
      ['BAD%20TOKEN', /no client has this token/],
      ['a'.repeat(65), /no client has this token/],
      ['fixed', /ROUTEMASTER_CLIENTS/],
      ['Fixed%20Too', /ROUTEMASTER_CLIENTS/],
    ];
    for (const [path, detail] of refused) {
      const { status, body } = await call('DELETE', `/api_tokens/${path}`);
      assert.deepEqual([status, body.code], [400, 'bad_client']);
      assert.match(body.detail, detail);
    }
    assert.deepEqual(removedSubscribers, []);
  });

  test('is for root alone', async () => {
    const { token, secret } = (await post({ name: 'billing' })).body;
    const calls = [
      ['GET', '/api_tokens'],
      ['POST', '/api_tokens', '{"name":"x"}'],
      ['DELETE', '/api_tokens/x'],
    ] as const;
    for (const [method, path, body] of calls) {
      assert.equal((await call(method, path, body, '')).status, 401);
      assert.equal((await call(method, path, body, basic('nobody', ''))).status, 401);
      const { status, body: problem } = await call(method, path, body, basic(token, secret));
      assert.deepEqual([status, problem.code], [403, 'forbidden']);
    }
    assert.deepEqual(removedSubscribers, []);
  });

  test('accepts no other method and no other spelling of the path', async () => {
    const put = await call('PUT', '/api_tokens');
    assert.deepEqual([put.status, put.headers.get('allow')], [405, 'GET, HEAD, POST']);
    const get = await call('GET', '/api_tokens/x');
    assert.deepEqual([get.status, get.headers.get('allow')], [405, 'PUT, DELETE']);
    assert.equal((await call('GET', '/api_tokens/')).status, 404);
    assert.equal((await call('GET', '/API_tokens')).status, 404);
  });
});

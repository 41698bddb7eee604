import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { BusAnswerError, BusClient, type Credentials } from '../../../harness/http/bus_client.ts';
import { WebProcess } from '../../../harness/processes/web_process.ts';
import { REDIS_PREFIX, TestStore } from '../../../harness/redis/store.ts';
import { Clients } from '../../../src/authentication/client.ts';

const ROOT_KEY = '0f'.repeat(24);
const redis = new TestStore();

/** Starts a web process in production, with a client whose token of one letter came from a Ruby Routemaster. */
async function production(t: { after: (end: () => unknown) => void }) {
  await redis.flush();
  await redis.store.redis.hset(redis.store.keys.api_tokens(), 'r', 'ruby');
  const web = WebProcess.during(t, {
    NODE_ENV: 'production',
    FORCE_SSL: 'no',
    ROUTEMASTER_ROOT_KEY: ROOT_KEY,
    ROUTEMASTER_REDIS_URL: redis.redis.url,
    ROUTEMASTER_REDIS_PREFIX: REDIS_PREFIX,
    ROUTEMASTER_COMPATIBILITY: 'routemaster',
    ROUTEMASTER_CLIENTS: 'f',
  });
  const url = `http://127.0.0.1:${await web.port()}`;
  const by = (token: string, secret = 'x') => new BusClient(url, { token, secret });
  return { web, root: by(ROOT_KEY), by };
}

test('a token without a secret has at least 16 characters in production, but for those of a taken-over bus', async (t) => {
  const { web, root, by } = await production(t);
  const tooShort = (error: unknown) =>
    error instanceof BusAnswerError && error.status === 400 && /at least 16 characters/.test(error.message);
  for (const token of ['a', 'fifteen-letters'])
    await assert.rejects(root.call('POST', '/api_tokens', { name: 'new', token }), tooShort, token);
  await root.call('POST', '/api_tokens', { name: 'new', token: 'sixteen--letters' });

  for (const token of ['r', 'f', 'sixteen--letters']) await by(token).call('GET', '/topics');
  await root.call('POST', '/api_tokens', { name: 'renamed', token: 'r' });
  const [, names] = await web.prints(/"clients":\[([^\]]*)\],"msg":"tokens of fewer than 16 characters/);
  assert.match(names as string, /^"unnamed\.[0-9a-f]{16}","ruby\.[0-9a-f]{16}"$/);
});

test('in production the bus does not start with a short token in its environment, unless it was taken over', async (t) => {
  await redis.flush();
  const web = WebProcess.during(t, {
    NODE_ENV: 'production',
    FORCE_SSL: 'no',
    ROUTEMASTER_ROOT_KEY: ROOT_KEY,
    ROUTEMASTER_REDIS_URL: redis.redis.url,
    ROUTEMASTER_REDIS_PREFIX: REDIS_PREFIX,
    ROUTEMASTER_CLIENTS: 'sixteen--letters,fifteen-letters',
  });
  assert.equal(await web.exitCode, 78);
  assert.match(web.output, /1 tokens of ROUTEMASTER_CLIENTS have fewer than 16 characters/);
});

test('web warns if ROUTEMASTER_CLIENTS lets anybody in as a client with a secret', async (t) => {
  await redis.flush();
  const clients = new Clients(redis.store, []);
  const { token } = await clients.create('billing');
  await clients.register('ruby', 'sixteen--letters');
  const web = WebProcess.during(t, {
    ROUTEMASTER_REDIS_URL: redis.redis.url,
    ROUTEMASTER_REDIS_PREFIX: REDIS_PREFIX,
    ROUTEMASTER_CLIENTS: `unknown,sixteen--letters,${token}`,
  });
  const [, named] = await web.prints(/"clients":\[([^\]]*)\],"msg":"ROUTEMASTER_CLIENTS admits anybody/);
  assert.equal(named, `"${token}"`);
});

test('a public name does not tell a token that is easily guessed', async (t) => {
  const { root, by } = await production(t);
  await by('r').call('POST', '/topics/widgets', { type: 'noop', url: 'https://app.example.com/1' });
  const spy = (await root.call('POST', '/api_tokens', { name: 'spy' })) as Credentials;
  const [{ publisher }] = (await by(spy.token, spy.secret).call('GET', '/topics')) as [{ publisher: string }];
  const digits = publisher.split('.')[1] as string;
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  assert.deepEqual(
    letters.filter((guess) => hash('sha256', guess).startsWith(digits)),
    [],
  );
});

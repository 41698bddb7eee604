import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { until } from '../../harness/until.ts';
import { basic, FIXED_TOKEN, GuardedServer, ROOT_KEY } from './guarded_server.ts';

const server = new GuardedServer();

beforeEach(async () => {
  await server.redis.flush();
  server.log.length = 0;
});

describe('a request without credentials', () => {
  test('is answered with the three challenges, and does not count as a failure', async () => {
    const { status, challenges, body } = await server.get('/client');
    assert.equal(status, 401);
    assert.equal(challenges.length, 3);
    assert.match(challenges[0] ?? '', /^Digest realm="Routemaster", .*algorithm=SHA-256$/);
    assert.match(challenges[1] ?? '', /^Digest realm="Routemaster", .*algorithm=MD5$/);
    assert.equal(challenges[2], 'Basic realm="Routemaster", charset="UTF-8"');
    assert.equal(body.code, 'unauthenticated');
    assert.deepEqual(server.log, []);
  });

  test('is answered differently from wrong credentials, whose answer does not say what is wrong', async () => {
    const { token } = await server.clients.create('shop');
    const detail = async (...given: string[]) => String((await server.get('/client', ...given)).body.detail);
    const wrong = await detail(basic(token, 'a-wrong-secret'));
    assert.match(
      wrong,
      /; the credentials that came with this request are wrong: .* token, not its name, and /,
    );
    assert.equal(await detail(basic('nobody--1', 'a-wrong-secret')), wrong);
    assert.doesNotMatch(await detail(), /wrong/);
    const { body } = await server.get('/root', basic('nobody--1', 'a-wrong-secret'));
    assert.match(String(body.detail), /; the credentials that came with this request are wrong$/);
  });

  test('is answered differently from root as the user of Basic, who learns that its key is the user', async () => {
    const { status, body } = await server.get('/root', basic('root', ROOT_KEY));
    assert.equal(status, 401);
    assert.match(String(body.detail), /; with Basic, the root key itself is the user: curl -u KEY:$/);
    const of = (user: string) =>
      server.get('/root', basic(user, 'x')).then(({ body }) => String(body.detail));
    assert.match(await of('viewer'), /the viewer key itself is the user/);
    assert.doesNotMatch(await of('rootless'), /itself/);
  });

  test('is answered with the role that is needed', async () => {
    const detail = async (path: string) => String((await server.get(path)).body.detail);
    assert.match(await detail('/client'), /takes a client's credentials/);
    assert.match(await detail('/root'), /takes the root credentials/);
    assert.match(await detail('/either'), /client's credentials.* or the root credentials/);
  });
});

test('an unknown scheme is answered with the challenges', async () => {
  for (const header of ['Bearer abc', 'Negotiate', 'constructor x']) {
    const { status, challenges } = await server.get('/client', header);
    assert.equal(status, 401);
    assert.equal(challenges.length, 3);
  }
});

test('two Authorization headers are refused, even if each is right', async () => {
  const right = basic(FIXED_TOKEN, '');
  const { status, body } = await server.get('/client', right, right);
  assert.equal(status, 400);
  assert.equal(body.code, 'bad_header');
});

describe('right credentials of the wrong role', () => {
  test('are forbidden, with the role that is needed', async () => {
    const root = await server.get('/client', basic(ROOT_KEY, ''));
    assert.equal(root.status, 403);
    assert.equal(root.body.code, 'forbidden');
    assert.match(String(root.body.detail), /takes a client's credentials/);
    assert.deepEqual(root.challenges, []);
    const client = await server.get('/root', basic(FIXED_TOKEN, ''));
    assert.equal(client.status, 403);
    assert.match(String(client.body.detail), /takes the root credentials/);
  });

  test('are accepted on a route that both roles may call', async () => {
    assert.equal((await server.get('/either', basic(ROOT_KEY, ''))).status, 200);
    assert.equal((await server.get('/either', basic(FIXED_TOKEN, ''))).status, 200);
  });
});

describe('a failure', () => {
  test('is logged with its reason and address, and with the name of a client that has a secret', async () => {
    const { token } = await server.clients.create('billing');
    await server.get('/client', basic(token, 'a-wrong-secret'));
    assert.deepEqual(server.log, [
      {
        level: 30,
        reason: 'wrong_secret',
        method: 'GET',
        path: '/client',
        remoteAddress: '127.0.0.1',
        client: token,
        msg: 'authentication failed',
      },
    ]);
  });

  test('is logged without any text that may be a credential', async () => {
    const { token, secret } = await server.clients.create('billing');
    const guess = 'a-guess';
    await server.get('/client', basic(token, guess));
    await server.get('/client', basic(guess, secret));
    await server.get('/client', `Digest ${guess}`);
    await server.get('/client', `Bearer ${guess}`);
    await server.get('/client', `Basic ${guess}`);
    await server.get('/client', basic(`${ROOT_KEY}${guess}`, ''));
    await server.get(`/client/${guess}?${guess}`, basic('nobody', ''));
    assert.equal(server.log.length, 7);
    assert.doesNotMatch(JSON.stringify(server.log), new RegExp(`${guess}|${secret}|${ROOT_KEY}`));
  });
});

test('a new client is admitted at once, even if its token was refused a moment ago', async () => {
  assert.equal((await server.get('/client', basic('mine', ''))).status, 401);
  await server.clients.register('mine', 'mine');
  assert.equal((await server.get('/client', basic('mine', ''))).status, 200);
});

test('a removed client is refused within a second', async () => {
  const { token, secret } = await server.clients.create('billing');
  assert.equal((await server.get('/client', basic(token, secret))).status, 200);
  const removedAt = performance.now();
  await server.clients.remove(token);
  await until(async () => (await server.get('/client', basic(token, secret))).status === 401);
  assert.ok(performance.now() - removedAt < 5000, 'a second, and what a slow machine needs');
});

test('a hundred requests of a client at a time are all answered', async () => {
  const { token, secret } = await server.clients.create('billing');
  const requests = Array.from({ length: 100 }, () => server.get('/client', basic(token, secret)));
  for (const { status } of await Promise.all(requests)) assert.equal(status, 200);
});

test('while Redis is away, clients are asked to try again; root and clients of ROUTEMASTER_CLIENTS are admitted', async () => {
  await server.redis.redis.kill('SIGKILL');
  const { status, body } = await server.get('/client', basic('anybody', ''));
  assert.equal(status, 503);
  assert.equal(body.code, 'storage_unavailable');
  assert.equal((await server.get('/root', basic(ROOT_KEY, ''))).status, 200);
  assert.equal((await server.get('/client', basic(FIXED_TOKEN, ''))).status, 200);
  await server.redis.redis.restart();
  await until(async () => (await server.get('/client', basic('anybody', ''))).status === 401);
});

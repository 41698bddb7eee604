import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, mock, test } from 'node:test';
import { expectedResponse } from '../../src/authentication/digest_answer.ts';
import { clock } from '../../src/clock.ts';
import { answerParameters, challengeFor, header, type Parameters, parametersOf } from './digest_client.ts';
import { FIXED_TOKEN, GuardedServer, ROOT_KEY } from './guarded_server.ts';

let aheadMs = 0;
before(() => mock.method(clock, 'monotonicMs', () => performance.now() + aheadMs));
after(() => mock.reset());
const server = new GuardedServer();
let token: string;
let secret: string;

beforeEach(async () => {
  ({ token, secret } = await server.clients.create('billing'));
  server.log.length = 0;
});

const challenges = async () =>
  (await server.get('/client')).challenges.filter((each) => each.startsWith('Digest'));

/** Resolves with the parameters of a right answer to a fresh challenge; the test may then spoil them. */
async function answer(
  algorithm = 'SHA-256',
  changes: Partial<Parameters & { user: string }> = {},
): Promise<Parameters> {
  const challenge = challengeFor(algorithm, await challenges());
  return answerParameters(challenge, { user: token, secret, uri: '/client', ...changes });
}

const send = (parameters: Record<string, string | undefined>, target = '/client') =>
  server.get(target, header(parameters));

describe('the challenges', () => {
  test('offer SHA-256, then MD5, with qop=auth', async () => {
    const offered = (await challenges()).map(parametersOf);
    assert.deepEqual(
      offered.map(({ algorithm }) => algorithm),
      ['SHA-256', 'MD5'],
    );
    for (const { nonce, algorithm: _, ...rest } of offered) {
      assert.match(nonce ?? '', /^[\w-]{40}$/);
      assert.deepEqual(rest, { realm: 'Routemaster', qop: 'auth', charset: 'UTF-8' });
    }
  });
});

describe('Digest lets in', () => {
  for (const algorithm of ['SHA-256', 'MD5']) {
    test(`a client that proves its secret by ${algorithm}`, async () => {
      const { status, body } = await send(await answer(algorithm));
      assert.equal(status, 200);
      assert.deepEqual(body, { role: 'client', token, name: 'billing' });
    });

    test(`root, by ${algorithm}, as the user root with the root key`, async () => {
      const { status, body } = await send(
        await answer(algorithm, { user: 'root', secret: ROOT_KEY, uri: '/root' }),
        '/root',
      );
      assert.equal(status, 200);
      assert.deepEqual(body, { role: 'root' });
    });
  }

  test('a client that names no algorithm and means MD5', async () => {
    assert.equal((await send({ ...(await answer('MD5')), algorithm: undefined })).status, 200);
  });

  test('a response in upper case', async () => {
    const right = await answer();
    assert.equal((await send({ ...right, response: right.response?.toUpperCase() })).status, 200);
  });

  test('a request whose uri has a query, or is in absolute form', async () => {
    const query = await answer('SHA-256', { uri: '/client?a=1&b=%20' });
    assert.equal((await send(query, '/client?a=1&b=%20')).status, 200);
    const absolute = () => answer('SHA-256', { uri: `http://127.0.0.1:${server.port}/client?a=1` });
    assert.equal((await send(await absolute(), '/client?a=1')).status, 200);
    assert.equal((await send(await absolute(), `http://127.0.0.1:${server.port}/client?a=1`)).status, 200);
    const origin = await answer('SHA-256', { uri: '/client?a=1' });
    assert.equal((await send(origin, `http://127.0.0.1:${server.port}/client?a=1`)).status, 200);
  });
});

describe('Digest refuses', () => {
  test('a wrong secret, and logs the failure with the name of the client', async () => {
    const { status, challenges: again } = await send(await answer('SHA-256', { secret: 'wrong' }));
    assert.equal(status, 401);
    assert.ok(again.every((challenge) => !challenge.includes('stale')));
    assert.deepEqual(
      server.log.map(({ reason, client }) => ({ reason, client })),
      [{ reason: 'wrong_secret', client: token }],
    );
    await send(await answer('SHA-256', { user: 'root', secret: 'wrong' }));
    assert.equal(server.log[1]?.client, 'root');
  });

  test('an unknown user', async () => {
    assert.equal((await send(await answer('SHA-256', { user: 'nobody' }))).status, 401);
  });

  test('a token-only client with any answer, advises Basic, and offers nothing else', async () => {
    for (const wrong of ['', FIXED_TOKEN, 'x']) {
      const { status, body, challenges } = await send(
        await answer('SHA-256', { user: FIXED_TOKEN, secret: wrong }),
      );
      assert.equal(status, 401);
      assert.match(String(body.detail), /use Basic/);
      assert.deepEqual(challenges, ['Basic realm="Routemaster", charset="UTF-8"']);
    }
  });

  test('an answer without a secret for a client that has no digest of the algorithm', async () => {
    for (const [algorithm, missing] of [
      ['SHA-256', 'ha1_sha256'],
      ['MD5', 'ha1_md5'],
    ] as const) {
      const half = await server.clients.create('half');
      await server.redis.store.redis.hdel(`api_token:${half.token}`, missing);
      const sent = await answer(algorithm, { user: half.token, secret: half.secret });
      const { nonce = '', nc = '', cnonce = '', uri = '' } = sent;
      const response = expectedResponse(algorithm, '', 'GET', { nonce, nc, cnonce, uri });
      assert.equal((await send({ ...sent, response })).status, 401, algorithm);
    }
  });

  test('an answer that was made for another method, uri, nonce, count or algorithm', async () => {
    assert.equal((await send(await answer('SHA-256', { method: 'POST' }))).status, 401);
    const { response, ...other } = await answer('SHA-256', { uri: '/either' });
    assert.equal((await send({ ...other, uri: '/client', response: String(response) })).status, 401);
    const { nonce } = await answer();
    assert.equal((await send({ ...(await answer()), nonce })).status, 401);
    assert.equal((await send({ ...(await answer()), nc: '00000002' })).status, 401);
    assert.equal((await send({ ...(await answer()), cnonce: 'x' })).status, 401);
    assert.equal((await send({ ...(await answer()), algorithm: 'MD5' })).status, 401);
  });

  test('an algorithm, realm or nonce that was not offered', async () => {
    const right = await answer();
    const nonce = right.nonce ?? '';
    const tampered = (nonce.startsWith('A') ? 'B' : 'A') + nonce.slice(1);
    const wrong = [
      { algorithm: 'MD5-sess' },
      { algorithm: 'SHA-512-256' },
      { algorithm: 'constructor' },
      { realm: 'routemaster' },
      { nonce: tampered },
      { nonce: 'mine' },
    ];
    for (const change of wrong) {
      const { status, body } = await send({ ...right, ...change });
      assert.equal(status, 401, JSON.stringify(change));
      assert.match(String(body.detail), /one of the challenges/);
    }
    const own = answerParameters(
      { realm: 'Routemaster', nonce: tampered, algorithm: 'SHA-256' },
      { user: token, secret, uri: '/client' },
    );
    const { status, challenges: again } = await send(own);
    assert.equal(status, 401);
    assert.ok(again.every((challenge) => !challenge.includes('stale')));
  });

  test('a uri that is not the target of the request', async () => {
    const { port } = server;
    for (const uri of [
      '/client/',
      '/client?',
      '/CLIENT',
      'client',
      `http://127.0.0.1:${port + 1}/client`,
      `ftp://127.0.0.1:${port}/client`,
    ]) {
      const { status, body } = await send(await answer('SHA-256', { uri }));
      assert.equal(status, 400, uri);
      assert.equal(body.code, 'bad_header');
      assert.match(String(body.detail), /uri must be the target/);
    }
  });

  test('a malformed answer, and says what is wrong with it', async () => {
    const right = header(await answer());
    const malformed: [string, RegExp][] = [
      ['Digest', /must be/],
      ['Digest x', /cannot be read/],
      [right.replace('qop=auth', 'qop=auth-int'), /qop must be auth/],
      [right.replace('nc=00000001', 'nc=1'), /nc must be/],
      [`${right}, realm="Routemaster"`, /realm twice/],
      [right.replace('username=', 'username*='), /username must be there/],
    ];
    for (const [text, message] of malformed) {
      const { status, body } = await server.get('/client', text);
      assert.equal(status, 400);
      assert.equal(body.code, 'bad_header');
      assert.match(String(body.detail), message);
    }
  });
});

describe('a nonce that is older than five minutes', () => {
  test('makes a right answer stale: the client may try again with a new nonce', async () => {
    const right = await answer();
    aheadMs += 5 * 60_000;
    const { status, challenges: again } = await send(right);
    assert.equal(status, 401);
    const fresh = challengeFor(
      'SHA-256',
      again.filter((challenge) => challenge.startsWith('Digest')),
    );
    assert.equal(fresh.stale, 'true');
    assert.deepEqual(server.log, []);
    assert.equal((await send(answerParameters(fresh, { user: token, secret, uri: '/client' }))).status, 200);
  });

  test('does not make a wrong answer stale', async () => {
    const wrong = await answer('SHA-256', { secret: 'wrong' });
    aheadMs += 5 * 60_000;
    const { status, challenges: again } = await send(wrong);
    assert.equal(status, 401);
    assert.ok(again.every((challenge) => !challenge.includes('stale')));
  });
});

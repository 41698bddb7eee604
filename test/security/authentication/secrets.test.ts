import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Answer, Api, basic, problemIn } from '../../../harness/http/api.ts';
import { until } from '../../../harness/until.ts';
import { answerParameters, challengeFor, header } from '../../authentication/digest_client.ts';

/**
 * The port of a second web process on the same Redis. Requests go there by default, so it is the one that remembers
 * secrets.
 */
let secondPort: number;
const api = new Api({
  prepare: async () => {
    secondPort = await api.another();
  },
});

const at = (token: string, secret: string, port = secondPort) =>
  fetch(`http://127.0.0.1:${port}/topics`, { headers: { authorization: basic(token, secret) } }).then(
    ({ status }) => status,
  );

/** Sends requests until one is refused. Returns when the last accepted request was sent (ms of performance.now). */
async function lastLetIn(token: string, secret: string, port = secondPort): Promise<number> {
  let lastMs = Number.NEGATIVE_INFINITY;
  await until(async () => {
    const sentMs = performance.now();
    if ((await at(token, secret, port)) === 401) return true;
    lastMs = sentMs;
    return false;
  });
  return lastMs;
}

async function make(): Promise<{ token: string; secret: string }> {
  const made = await api.call('POST', '/api_tokens', { as: 'root', body: '{"name":"shop"}' });
  return JSON.parse(made.text);
}

const rotate = (token: string, body?: string): Promise<Answer> =>
  api.call('POST', `/api_tokens/${token}/secret`, { as: 'root', ...(body !== undefined && { body }) });

describe('a rotated secret', () => {
  test('is shown once and works at once everywhere; the old one works for the time of grace', async () => {
    const { token, secret } = await make();
    assert.equal(await at(token, secret), 200);
    const answer = await rotate(token, '{"grace":60000}');
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['cache-control'], 'no-store');
    const rotated = JSON.parse(answer.text);
    assert.deepEqual(rotated, { token, secret: rotated.secret, grace: 60_000 });
    assert.notEqual(rotated.secret, secret);
    // The second process still remembers the client with only its old secret.
    assert.equal(await at(token, rotated.secret), 200);
    // A process remembers a client for a second: ask for longer than that.
    for (const endMs = performance.now() + 1100; performance.now() < endMs; ) {
      for (const port of [api.port, secondPort]) {
        assert.equal(await at(token, secret, port), 200);
        assert.equal(await at(token, rotated.secret, port), 200);
      }
    }
    for (const port of [api.port, secondPort]) assert.equal(await at(token, 'wrong', port), 401);
  });

  test('begins sessions of the console that another process knows at once', async () => {
    const { token, secret } = await make();
    assert.equal(await at(token, secret), 200);
    const rotated = JSON.parse((await rotate(token)).text);
    const login = await fetch(`http://127.0.0.1:${api.port}/console/login`, {
      method: 'POST',
      body: new URLSearchParams({ user: token, password: rotated.secret }),
      headers: { 'sec-fetch-site': 'same-origin' },
      redirect: 'manual',
    });
    const cookie = (login.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    // The second process still remembers the client with only its old secret.
    const shown = await fetch(`http://127.0.0.1:${secondPort}/console`, {
      headers: { cookie, 'sec-fetch-site': 'same-origin' },
      redirect: 'manual',
    });
    assert.equal(shown.status, 200);
  });

  test('works with Digest, as the old one does', async () => {
    const { token, secret } = await make();
    const rotated = JSON.parse((await rotate(token)).text);
    assert.equal(rotated.grace, 86_400_000);
    for (const [each, expected] of [
      [secret, 200],
      [rotated.secret, 200],
      ['wrong', 401],
    ] as const) {
      for (const algorithm of ['SHA-256', 'MD5']) {
        const { headers } = await fetch(`http://127.0.0.1:${secondPort}/topics`);
        const challenges = (headers.get('www-authenticate') ?? '').split(/, (?=Digest|Basic)/);
        const parameters = answerParameters(
          challengeFor(
            algorithm,
            challenges.filter((text) => text.startsWith('Digest')),
          ),
          { user: token, secret: each, uri: '/topics' },
        );
        const answer = await fetch(`http://127.0.0.1:${secondPort}/topics`, {
          headers: { authorization: header(parameters) },
        });
        assert.equal(answer.status, expected, `${each} ${algorithm}`);
      }
    }
  });

  test('ends the old one by itself when the grace is over', async () => {
    const { token, secret } = await make();
    const rotated = JSON.parse((await rotate(token, '{"grace":4000}')).text);
    assert.equal(await at(token, secret), 200);
    await until(async () => (await at(token, secret)) === 401);
    assert.equal(await at(token, rotated.secret), 200);
    assert.equal(await api.store.redis.exists(`former_secret:${token}`), 0);
  });

  test('ends the one before the old one: a client has two at most', async () => {
    const { token, secret } = await make();
    const first = JSON.parse((await rotate(token)).text);
    const last = JSON.parse((await rotate(token)).text);
    assert.equal(await at(token, secret), 401);
    assert.equal(await at(token, first.secret), 200);
    assert.equal(await at(token, last.secret), 200);
  });

  test('is made once for callers who have seen the same secret', async () => {
    const { token, secret } = await make();
    const made = async () => {
      const { text } = await api.call('GET', '/api_tokens', { as: 'root' });
      const clients = JSON.parse(text) as { token: string; secret_at: number }[];
      return clients.find((each) => each.token === token)?.secret_at;
    };
    // The secret is as old as its client at first, and later as old as its last rotation.
    for (const current of [secret, undefined]) {
      const body = JSON.stringify({ secret_at: await made() });
      const answers = await Promise.all(Array.from({ length: 10 }, () => rotate(token, body)));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(9).fill(400)]);
      const refused = answers.find(({ status }) => status === 400);
      assert.match(refused?.text ?? '', /"code":"bad_client".*was replaced after.*"field":"secret_at"/);
      if (current !== undefined) assert.equal(await at(token, current), 200);
    }
  });

  test('ends the old one everywhere within a second if there is no grace', async () => {
    const { token, secret } = await make();
    assert.equal(await at(token, secret), 200);
    const rotated = JSON.parse((await rotate(token, '{"grace":0}')).text);
    const changedAtMs = performance.now();
    assert.ok((await lastLetIn(token, secret)) < changedAtMs + 1000);
    assert.equal(await at(token, rotated.secret), 200);
  });

  test('is for root only, and only for clients with a secret', async () => {
    const { token, secret } = await make();
    const own = { headers: { authorization: basic(token, secret) } };
    const refused = await api.call('POST', `/api_tokens/${token}/secret`, own);
    assert.equal(problemIn(refused).code, 'forbidden');
    await api.call('POST', '/api_tokens', { as: 'root', body: '{"name":"old","token":"old--1"}' });
    assert.match(problemIn(await rotate('old--1')).detail, /has no secret/);
    assert.equal(problemIn(await rotate('nobody')).code, 'client_not_found');
    for (const grace of ['-1', '2592000001', '1.5', '"1"', 'null'])
      assert.equal(problemIn(await rotate(token, `{"grace":${grace}}`)).field, 'grace');
    assert.equal(problemIn(await rotate(token, '{"secret":"mine"}')).field, 'secret');
    assert.equal(await at(token, secret), 200);
  });

  test('is stored as digests only, and removed with its client', async () => {
    const { token, secret } = await make();
    const rotated = JSON.parse((await rotate(token)).text);
    const { redis } = api.store;
    const fields = [
      ...Object.entries(await redis.hgetall(`api_token:${token}`)),
      ...Object.entries(await redis.hgetall(`former_secret:${token}`)),
    ];
    for (const [field, value] of fields) {
      if (field.startsWith('ha1_')) assert.match(value, /^([0-9a-f]{32}|[0-9a-f]{64})$/);
      assert.ok(!value.includes(secret) && !value.includes(rotated.secret), field);
    }
    await api.call('DELETE', `/api_tokens/${token}`, { as: 'root' });
    assert.deepEqual(await redis.keys(`*${token}`), []);
    await until(async () => (await at(token, secret)) === 401);
  });
});

test('a client that is removed is refused by every process within a second', async () => {
  const { token, secret } = await make();
  for (const port of [api.port, secondPort]) assert.equal(await at(token, secret, port), 200);
  await api.call('DELETE', `/api_tokens/${token}`, { as: 'root' });
  const removedAtMs = performance.now();
  const last = await Promise.all([api.port, secondPort].map((port) => lastLetIn(token, secret, port)));
  assert.ok(Math.max(...last) < removedAtMs + 1000);
});

test('a client with a secret cannot be registered anew without one: its secrets stay, and its token opens nothing', async () => {
  const { token, secret } = await make();
  await rotate(token);
  const body = JSON.stringify({ name: 'shop', token });
  const refused = problemIn(await api.call('POST', '/api_tokens', { as: 'root', body }));
  assert.deepEqual([refused.status, refused.code], [409, 'client_has_secret']);
  assert.equal(await at(token, secret), 200);
  assert.equal(await at(token, ''), 401);
});

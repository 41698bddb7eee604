import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { afterEach, describe, test } from 'node:test';
import { type Answer, Api, problemIn, send } from '../../../harness/http/api.ts';
import { until } from '../../../harness/until.ts';
import { answerParameters, challengeFor, header } from '../../authentication/digest_client.ts';

// A plain publish goes past Express, any other through it. Both are tested, in two real web processes.
const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
let otherPort: number;
const api = new Api({
  prepare: async () => {
    otherPort = await api.another();
  },
});

const challengesIn = ({ headers }: Answer) =>
  String(headers['www-authenticate'])
    .split(/, (?=Digest|Basic)/)
    .filter((each) => each.startsWith('Digest'));

for (const [way, target] of [
  ['plain', '/topics/widgets'],
  ['general', '/topics/widgets?'],
] as const) {
  test(`a publish by Digest, the ${way} way, is stored once, whichever process gets a copy`, async () => {
    await api.reset();
    const made = await api.call('POST', '/api_tokens', { as: 'root', body: '{"name":"shop"}' });
    const { token: user, secret } = JSON.parse(made.text);
    const publish = (port: number, authorization?: string) =>
      send(port, 'POST', target, authorization === undefined ? {} : { authorization }, EVENT);
    const challenge = challengeFor('SHA-256', challengesIn(await publish(api.port)));
    const answer = (count: number) =>
      header(answerParameters(challenge, { user, secret, uri: target, method: 'POST', count }));

    assert.equal((await publish(otherPort, answer(2))).status, 204);
    assert.equal((await publish(api.port, answer(1))).status, 204);
    for (const port of [api.port, otherPort, api.port]) {
      const copy = await publish(port, answer(1));
      assert.equal(problemIn(copy).code, 'unauthenticated');
      assert.equal(challengeFor('SHA-256', challengesIn(copy)).stale, 'true');
    }
    const topics = await api.call('GET', '/topics', { as: 'root' });
    assert.equal(JSON.parse(topics.text)[0].events, 2);

    const wrong = header(
      answerParameters(challenge, { user, secret: 'wrong', uri: target, method: 'POST', count: 3 }),
    );
    assert.equal((await publish(api.port, wrong)).status, 401);
    assert.equal((await publish(api.port, answer(3))).status, 204, 'a wrong answer consumes no use');
  });
}

describe('a recorded publish by Digest cannot be replayed', () => {
  const TARGET = '/topics/widgets';
  const LONG = JSON.stringify({ type: 'noop', url: 'https://app.example.com/1', data: 'x'.repeat(5000) });
  afterEach(() => api.store.redis.config('SET', 'maxmemory', '0'));

  /** Makes a client. Resolves with a function that publishes with the next count of a nonce, or with a given one. */
  async function publisher(client: object = {}) {
    await api.reset();
    const body = JSON.stringify({ name: 'shop', ...client });
    const made = await api.call('POST', '/api_tokens', { as: 'root', body });
    const { token: user, secret } = JSON.parse(made.text);
    const challenge = challengeFor('SHA-256', challengesIn(await send(api.port, 'POST', TARGET, {}, EVENT)));
    let last = 0;
    const authorize = (count = ++last, uri = TARGET) =>
      header(answerParameters(challenge, { user, secret, uri, method: 'POST', count }));
    const publish = (body: string, { port = api.port, count = ++last, target = TARGET, headers = {} } = {}) =>
      send(port, 'POST', target, { authorization: authorize(count, target), ...headers }, body);
    return Object.assign(publish, { authorize });
  }
  const codeOf = (answer: Answer) => (answer.status === 204 ? 'stored' : problemIn(answer).code);
  const stored = () => api.store.redis.hget('topic:widgets', 'counter');

  test('many copies at a time, at two processes: one is stored', async () => {
    const publish = await publisher();
    const ports = Array.from({ length: 40 }, (_, i) => (i % 2 ? api.port : otherPort));
    const codes = (await Promise.all(ports.map((port) => publish(EVENT, { port, count: 7 })))).map(codeOf);
    assert.deepEqual(codes.sort(), ['stored', ...Array(39).fill('unauthenticated')]);
    assert.equal(await stored(), '1');
  });

  test('with a long body', async () => {
    const publish = await publisher();
    assert.equal(codeOf(await publish(LONG)), 'stored');
    assert.equal(codeOf(await publish(LONG, { count: 1 })), 'unauthenticated');
    assert.equal(await stored(), '1');
  });

  test('after the publish was refused: with another body it would be stored', async () => {
    const publish = await publisher();
    assert.equal(codeOf(await publish('{"type":"odd"}')), 'bad_event');
    for (const port of [api.port, otherPort])
      assert.equal(codeOf(await publish(EVENT, { port, count: 1 })), 'unauthenticated');
    assert.equal(await stored(), null);
    assert.equal(codeOf(await publish(EVENT)), 'stored');
  });

  test('while its body is still arriving', async () => {
    const publish = await publisher();
    const authorization = publish.authorize();
    const options = {
      method: 'POST',
      path: TARGET,
      headers: { authorization, 'content-length': EVENT.length },
    };
    const slow = request({ host: '127.0.0.1', port: api.port, ...options });
    slow.write(EVENT.slice(0, 9));
    await until(async () => (await api.store.redis.keys('digest:counts:*')).length === 1);
    for (const port of [api.port, otherPort])
      assert.equal(codeOf(await publish(EVENT, { port, count: 1 })), 'unauthenticated');
    slow.end(EVENT.slice(9));
    const [{ statusCode }] = await once(slow, 'response');
    assert.equal(statusCode, 204);
    assert.equal(await stored(), '1');
  });

  test('and does not show what the client may do', async () => {
    const publish = await publisher({ publish: ['gadgets'] });
    assert.equal(codeOf(await publish(EVENT)), 'forbidden');
    assert.equal(codeOf(await publish(EVENT, { count: 1 })), 'unauthenticated');
  });

  test('after the storage was full', async () => {
    const publish = await publisher();
    await api.store.redis.config('SET', 'maxmemory', '1');
    assert.equal(codeOf(await publish(EVENT)), 'storage_full');
    await api.store.redis.config('SET', 'maxmemory', '0');
    await until(async () => codeOf(await publish(EVENT)) === 'stored');
    assert.equal(codeOf(await publish(EVENT, { count: 1 })), 'unauthenticated');
  });

  test('after the topic was another client’s, or the key stood for something else', async () => {
    const publish = await publisher();
    assert.equal((await api.call('POST', '/topics/taken', { as: 'other', body: EVENT })).status, 204);
    assert.equal(codeOf(await publish(EVENT, { target: '/topics/taken' })), 'topic_claimed');
    assert.equal(codeOf(await publish(EVENT, { target: '/topics/taken', count: 1 })), 'unauthenticated');
    const key = { 'idempotency-key': 'a-key' };
    assert.equal(codeOf(await publish(EVENT, { headers: key })), 'stored');
    assert.equal(codeOf(await publish(`[${EVENT}]`, { headers: key })), 'idempotency_key_reused');
    assert.equal(codeOf(await publish(`[${EVENT}]`, { headers: key, count: 3 })), 'unauthenticated');
  });
});

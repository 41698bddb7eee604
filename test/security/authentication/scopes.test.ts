import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Api, problemIn } from '../../../harness/http/api.ts';
import { allows, isTopicPattern } from '../../../src/authentication/scope.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const CALLBACK = 'https://app.example.com/events';
const api = new Api();
beforeEach(() => api.reset());

async function make(fields: object): Promise<Record<string, unknown>> {
  const body = JSON.stringify(fields);
  const made = await api.call('POST', '/api_tokens', { as: 'root', body });
  assert.equal(made.status, 201, made.text);
  const client = JSON.parse(made.text);
  api.enter(client);
  return client;
}

const publish = (as: string, topic: string, odd = '') =>
  api.call('POST', `/topics/${topic}${odd}`, { as, body: EVENT });
const subscribe = (as: string, ...topics: string[]) =>
  api.call('POST', '/subscription', { as, body: JSON.stringify({ topics, callback: CALLBACK, uuid: 'u' }) });

describe('a client that is limited', () => {
  test('publishes to its topics only, and claims no other', async () => {
    await make({ name: 'shop', publish: ['products', 'orders_*'] });
    for (const topic of ['products', 'orders_', 'orders_eu'])
      assert.equal((await publish('shop', topic)).status, 204);
    for (const topic of ['users', 'product', 'products_eu', 'orders']) {
      for (const odd of ['', '?']) {
        const problem = problemIn(await publish('shop', topic, odd));
        assert.deepEqual(
          [problem.code, problem.detail],
          ['forbidden', `this client may not publish to ${topic}`],
        );
      }
    }
    const { text } = await api.call('GET', '/topics', { as: 'root' });
    const names = JSON.parse(text).map(({ name }: { name: string }) => name);
    assert.deepEqual(names.sort(), ['orders_', 'orders_eu', 'products']);
    assert.equal((await subscribe('shop', 'users')).status, 204, 'what is left out is not limited');
  });

  test('subscribes to its topics only, to all that it asks for or none', async () => {
    await make({ name: 'search', publish: [], subscribe: ['products', 'orders_*'] });
    assert.equal((await subscribe('search', 'products', 'orders_eu')).status, 204);
    const problem = problemIn(await subscribe('search', 'products', 'users'));
    assert.deepEqual([problem.code, problem.field], ['forbidden', 'topics.1']);
    const { text } = await api.call('GET', '/subscriptions', { as: 'search' });
    assert.deepEqual(JSON.parse(text)[0].topics, ['orders_eu', 'products']);
    assert.equal(problemIn(await publish('search', 'products')).code, 'forbidden');
  });

  test('to nothing may do neither, but look', async () => {
    await make({ name: 'prometheus', publish: [], subscribe: [] });
    assert.equal(problemIn(await subscribe('prometheus')).code, 'forbidden');
    assert.equal(problemIn(await publish('prometheus', 'products')).code, 'forbidden');
    for (const path of ['/metrics', '/pulse', '/topics'])
      assert.ok((await api.call('GET', path, { as: 'prometheus' })).status < 300);
  });

  test('may have a token of its own choosing, and loses its limits as that is registered anew', async () => {
    const fields = { name: 'old', token: 'old--1', publish: ['products'] };
    assert.deepEqual(await make(fields), fields);
    assert.equal((await publish('old', 'users')).status, 403);
    await make({ name: 'older', token: 'old--1' });
    // Waits until the process asks Redis again.
    const { text } = await api.call('GET', '/api_tokens', { as: 'root' });
    const [{ name, token, publish: limits }] = JSON.parse(text);
    assert.deepEqual([name, token, limits], ['older', 'old--1', undefined]);
  });

  test('is shown with its limits to root, and stays limited when its secret is changed', async () => {
    const { token } = await make({ name: 'shop', publish: ['products'], subscribe: [] });
    const list = await api.call('GET', '/api_tokens', { as: 'root' });
    const [shown] = JSON.parse(list.text);
    assert.deepEqual([shown.token, shown.publish, shown.subscribe], [token, ['products'], []]);
    const rotated = await api.call('POST', `/api_tokens/${token}/secret`, { as: 'root' });
    api.enter({ name: 'shop', ...JSON.parse(rotated.text) });
    assert.equal((await publish('shop', 'users')).status, 403);
    assert.equal((await publish('shop', 'products')).status, 204);
  });
});

test('a client that is not limited publishes and subscribes to anything', async () => {
  await make({ name: 'both' });
  assert.equal((await publish('both', 'anything')).status, 204);
  assert.equal((await subscribe('both', 'anything', 'else')).status, 204);
});

test('malformed scopes are refused, and nothing is stored', async () => {
  const wrong = [
    { publish: 'products' },
    { publish: null },
    { publish: [3] },
    { subscribe: ['Products'] },
    { subscribe: ['a*b'] },
    { subscribe: ['**'] },
    { subscribe: [''] },
    { subscribe: ['a b'] },
    { subscribe: Array.from({ length: 101 }, () => 'a') },
  ];
  for (const fields of wrong) {
    const body = JSON.stringify({ name: 'shop', ...fields });
    const problem = problemIn(await api.call('POST', '/api_tokens', { as: 'root', body }));
    assert.equal(problem.code, 'bad_client', body);
    assert.match(problem.field ?? '', /^(publish|subscribe)/);
  }
  assert.equal((await api.call('GET', '/api_tokens', { as: 'root' })).status, 204);
});

test('a pattern is a name or a prefix', () => {
  for (const good of ['a', 'a*', '*', 'a_1*', 'a'.repeat(64), `${'a'.repeat(64)}*`])
    assert.ok(isTopicPattern(good), good);
  for (const bad of ['', 'A', '*a', 'a**', 'a.b', 'a\n', 'a'.repeat(65)])
    assert.ok(!isTopicPattern(bad), bad);
  assert.ok(allows(undefined, 'a') && allows(['*'], 'a') && allows(['b', 'a'], 'a'));
  assert.ok(!allows([], 'a') && !allows(['b*', 'aa'], 'a'));
});

import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Api, problemIn } from '../../../harness/http/api.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';

const api = new Api({
  env: {
    ROUTEMASTER_MAX_TOPICS: '4',
    ROUTEMASTER_MAX_SUBSCRIBERS: '2',
    ROUTEMASTER_MAX_SUBSCRIPTION_TOPICS: '3',
  },
});
beforeEach(() => api.reset());

const publish = (as: string, topic: string) => api.call('POST', `/topics/${topic}`, { as, body: EVENT });
const subscribe = (as: string, topics: string[]) =>
  api.call('POST', '/subscription', {
    as,
    body: JSON.stringify({ topics, callback: 'https://app.example.com/', uuid: 'x' }),
  });
const listed = async (path: string) => JSON.parse((await api.call('GET', path, { as: 'root' })).text).length;

/** Resolves with the names in Redis, sorted: a set may change its order as it is read. */
async function stored() {
  const { redis, keys } = api.store;
  const members = async (key: string) => (await redis.smembers(key)).sort();
  return {
    keys: (await redis.keys('*')).sort(),
    topics: await members(keys.topics()),
    subscribers: await members(keys.subscribers()),
  };
}

async function assertNoRoom(call: () => ReturnType<typeof publish>, detail: RegExp): Promise<void> {
  const before = await stored();
  const problem = problemIn(await call());
  assert.deepEqual([problem.status, problem.code], [409, 'limit_reached']);
  assert.match(problem.detail, detail);
  assert.deepEqual(await stored(), before, 'nothing is stored');
}

describe('topics', () => {
  test('are limited in number when publishing makes them; existing ones still take events', async () => {
    await api.token('other');
    for (const topic of ['a', 'b', 'c', 'd']) assert.equal((await publish('pub', topic)).status, 204);
    await assertNoRoom(
      () => publish('pub', 'e'),
      /no room for more topics, and none is called e; delete some/,
    );
    await assertNoRoom(() => publish('other', 'f'), /ROUTEMASTER_MAX_TOPICS/);
    assert.equal((await publish('pub', 'a')).status, 204);
    assert.equal((await api.call('DELETE', '/topics/a', { as: 'pub' })).status, 204);
    assert.equal((await publish('pub', 'e')).status, 204);
    await assertNoRoom(() => publish('pub', 'a'), /none is called a/);
  });

  test('are limited in number when many are made at once', async () => {
    await Promise.all([api.token('pub'), api.token('other')]);
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => publish(n % 2 ? 'pub' : 'other', `topic_${n}`)),
    );
    assert.equal(answers.filter(({ status }) => status === 204).length, 4);
    assert.equal(answers.filter(({ status }) => status === 409).length, 36);
    assert.equal(await listed('/topics'), 4);
  });

  test('are limited in number when subscribing makes them', async () => {
    await api.token('other');
    for (const topic of ['a', 'b']) assert.equal((await publish('pub', topic)).status, 204);
    assert.equal((await subscribe('sub', ['a', 'c', 'a'])).status, 204);
    await assertNoRoom(() => subscribe('other', ['d', 'e']), /no room for more topics/);
    assert.equal((await subscribe('other', ['d'])).status, 204);
    assert.equal((await publish('pub', 'c')).status, 204, 'one that nobody has claimed yet is there');
    await assertNoRoom(() => publish('pub', 'e'), /no room/);
  });
});

describe('a client', () => {
  const limited = new Api({
    env: { ROUTEMASTER_MAX_CLIENT_TOPICS: '1', ROUTEMASTER_MAX_CLIENT_DELAYED: '1' },
  });
  beforeEach(() => limited.reset());
  const give = async (topic: string, to: string) => {
    const body = JSON.stringify({ client: await limited.token(to) });
    return limited.call('PUT', `/topics/${topic}/publisher`, { as: 'root', body });
  };

  test('is given no more topics, and no more delayed events, than it may have', async () => {
    const publish = (as: string, topic: string, body: string) =>
      limited.call('POST', `/topics/${topic}`, { as, body });
    assert.equal((await publish('pub', 'a', EVENT)).status, 204);
    assert.equal((await publish('other', 'b', EVENT)).status, 204);
    const problem = problemIn(await give('a', 'other'));
    assert.deepEqual([problem.status, problem.code], [409, 'limit_reached']);
    assert.match(problem.detail, /ROUTEMASTER_MAX_CLIENT_TOPICS/);
    assert.equal((await limited.call('DELETE', '/topics/b', { as: 'other' })).status, 204);
    const delayed = '{"type":"noop","url":"https://app.example.com/1","delay":60000}';
    assert.equal((await publish('pub', 'a', delayed)).status, 204);
    assert.equal((await give('a', 'other')).status, 204);
    assert.equal((await publish('pub', 'c', EVENT)).status, 204, 'the former publisher has room again');
  });
});

test('subscribers are limited in number; existing ones may still change', async () => {
  for (const as of ['one', 'two']) assert.equal((await subscribe(as, ['a'])).status, 204);
  await api.token('three');
  await assertNoRoom(
    () => subscribe('three', ['a']),
    /no room for more subscribers.*ROUTEMASTER_MAX_SUBSCRIBERS/,
  );
  assert.equal((await subscribe('one', ['a', 'b'])).status, 204);
  assert.equal((await api.call('DELETE', '/subscriber', { as: 'two' })).status, 204);
  assert.equal((await subscribe('three', ['a'])).status, 204);
  assert.equal(await listed('/subscriptions'), 2);
});

test('the topics of one subscription are limited in number', async () => {
  assert.equal((await subscribe('sub', ['a', 'b', 'c'])).status, 204);
  const { code, detail } = problemIn(await subscribe('sub', ['a', 'b', 'c', 'd']));
  assert.deepEqual([code, detail], ['bad_subscription', 'topics: must have at most 3 names']);
});

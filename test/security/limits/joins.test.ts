import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import { Api, problemIn } from '../../../harness/http/api.ts';
import { joinToken } from '../../../src/ids.ts';

// Two joins a client, three in all; four topics a client, eight in all.
const api = new Api({
  env: {
    ROUTEMASTER_MAX_CLIENT_JOINS: '2',
    ROUTEMASTER_MAX_JOINS: '3',
    ROUTEMASTER_MAX_CLIENT_TOPICS: '4',
    ROUTEMASTER_MAX_TOPICS: '8',
    ROUTEMASTER_MAX_SUBSCRIBERS: '1',
  },
});
beforeEach(() => api.reset());

async function put(client: string, name: string, sources: string[], ...outlets: string[]): Promise<string> {
  const [then, expiry] = outlets.map((topic) => ({ topic }));
  const rules = { sources: sources.map((topic) => ({ topic })), by: 'url', then, on_expiry: expiry ?? null };
  const answer = await api.call('PUT', `/joins/${name}`, { as: client, body: JSON.stringify(rules) });
  if (answer.status < 300) return String(answer.status);
  const { code, detail } = problemIn(answer);
  return `${answer.status} ${code} ${/ROUTEMASTER_\w+/.exec(detail)?.[0] ?? ''}`.trim();
}

test('a client has so many joins, and the bus so many; subscribers are counted apart', async () => {
  assert.equal(await put('alpha', 'a', ['s'], 'a1'), '201');
  assert.equal(await put('alpha', 'b', ['s'], 'a2'), '201');
  assert.equal(await put('alpha', 'c', ['s'], 'a3'), '409 limit_reached ROUTEMASTER_MAX_CLIENT_JOINS');
  assert.equal(await put('alpha', 'b', ['s'], 'a3'), '200', 'a change needs no room');
  assert.equal(await put('beta', 'a', ['s'], 'b1'), '201');
  assert.equal(await put('beta', 'b', ['s'], 'b2'), '409 limit_reached ROUTEMASTER_MAX_JOINS');
  const subscription = { topics: [], callback: 'https://app.example.com/', uuid: 'u' };
  const subscribe = (client: string) =>
    api.call('POST', '/subscription', { as: client, body: JSON.stringify(subscription) });
  assert.equal((await subscribe('gamma')).status, 204);
  assert.equal((await subscribe('delta')).status, 409);
  await api.call('DELETE', '/joins/a', { as: 'alpha' });
  assert.equal(await put('beta', 'b', ['s'], 'b2'), '201');
});

test('a join makes no more topics than there may be, and a refused one makes none', async () => {
  const topics = async () => JSON.parse((await api.call('GET', '/topics', { as: 'root' })).text).length;
  assert.equal(await put('alpha', 'a', ['s1', 's2'], 'a1', 'a2'), '201');
  assert.equal(await put('alpha', 'b', ['s1'], 'a3', 'a4'), '201');
  assert.equal(
    await put('alpha', 'b', ['s1'], 'a5', 'a4'),
    '409 limit_reached ROUTEMASTER_MAX_CLIENT_TOPICS',
  );
  assert.equal(await topics(), 6);
  assert.equal(await put('beta', 'a', ['s1', 's3', 's4'], 'b1'), '409 limit_reached ROUTEMASTER_MAX_TOPICS');
  assert.equal(await put('beta', 'a', ['s1', 's3'], 'b1', 'b2'), '409 limit_reached ROUTEMASTER_MAX_TOPICS');
  assert.equal(await topics(), 6);
  assert.equal(await put('beta', 'a', ['s1', 's3'], 'b1'), '201');
  assert.equal(await topics(), 8);
});

test('a page of open keys ends after a MiB, and the pages together have all keys', async () => {
  assert.equal(await put('alpha', 'a', ['s'], 'a1'), '201');
  const { redis, keys } = api.store;
  const token = joinToken('a', await api.token('alpha'));
  const ids = Array.from({ length: 100 }, (_, n) => `${n}`.padEnd(64, 'x'));
  const names = Array.from({ length: 400 }, (_, n) => `${n}`.padStart(3, '0'));
  for (const name of names) {
    const since = 1_795_171_531_418 + Number(name);
    const record = [since, 'https://app.example.com/'.padEnd(1024, 'x'), ['s', ids.length, ids]];
    await redis.hset(keys.open_keys(token), name, Buffer.from(encode(record)));
    await redis.zadd(keys.open_keys_since(token), since, name);
  }
  const found: string[] = [];
  for (let path = '/joins/a?limit=1000'; path !== ''; ) {
    const { headers, text } = await api.call('GET', path, { as: 'alpha' });
    assert.ok(text.length < 1.5 * 1_048_576, `${text.length} bytes`);
    found.push(...JSON.parse(text).keys.map(({ key }: { key: string }) => key));
    path = /^<([^>]+)>/.exec(String(headers.link ?? ''))?.[1] ?? '';
  }
  assert.deepEqual(found, names);
});
